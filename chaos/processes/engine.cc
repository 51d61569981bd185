#include "chaos/processes/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "sim/sim_engine.h"

namespace farpage::processes {
namespace {

constexpr std::array<uint64_t, 4> kFetchMs = {5, 50, 200, 500};
constexpr std::array<uint64_t, 3> kWriteMs = {50, 300, 1'000};
constexpr uint64_t kTimeEnoughNs = 50 * kMillisecond;
constexpr uint64_t kLongestGapUs = 8'000;
constexpr uint64_t kMostLate = 10'000;

void nap(uint64_t ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
}

}  // namespace

Keys::Keys(size_t kept_count, size_t removable_count, bool have_one_length)
    : kept(kept_count), have_one_length(have_one_length) {
  for (size_t key = 0; key < kept_count + removable_count; ++key) {
    all.push_back(make_page_key("processes", std::to_string(key)));
  }
}

uint64_t Keys::length(size_t key, uint64_t page_bytes) const {
  return have_one_length ? page_bytes : length_of(key, page_bytes);
}

Result<std::unique_ptr<Engine>> Engine::make(std::string name, std::shared_ptr<Client> client,
                                             Checker& checker, const Keys& keys,
                                             uint64_t page_bytes, uint64_t seed,
                                             Destination destination) {
  std::unique_ptr<GpuFrames> gpu;
  if (destination != Destination::kHost) {
    const auto failed = [&checker, name](std::string why) {
      checker.add(FindingKind::kUnfinished, fmt::format("{}: {}", name, why));
    };
    auto made = GpuFrames::make(*client, kFrames, page_bytes, destination, failed);
    if (!made) return tl::unexpected(made.error());
    gpu = std::move(*made);
  }
  auto engine = std::unique_ptr<Engine>(new Engine(
      std::move(name), std::move(client), std::move(gpu), checker, keys, page_bytes, seed));
  const std::span<std::byte> memory = engine->frames_.memory();
  auto region = engine->client_->register_memory({memory.data(), memory.size()});
  if (!region) return tl::unexpected(region.error());
  engine->region_ = std::move(*region);
  if (engine->gpu_ != nullptr) return engine;
  auto lane = engine->client_->open_lane();
  if (!lane) return tl::unexpected(lane.error());
  engine->lane_ = std::make_unique<Lane>(std::move(*lane));
  return engine;
}

Engine::Engine(std::string name, std::shared_ptr<Client> client, std::unique_ptr<GpuFrames> gpu,
               Checker& checker, const Keys& keys, uint64_t page_bytes, uint64_t seed)
    : name_(std::move(name)),
      client_(std::move(client)),
      checker_(checker),
      keys_(keys),
      page_bytes_(page_bytes),
      random_(seed),
      gpu_(std::move(gpu)),
      frames_(
          kFrames, page_bytes,
          [this](size_t frame) {
            checker_.add(FindingKind::kLateLandings,
                         fmt::format("{}: a late landing in frame {}", name_, frame));
          },
          gpu_.get()) {}

Engine::~Engine() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  held_.clear();
}

void Engine::start() {
  thread_ = std::thread([this] {
    run();
    stopped_ = true;
  });
}

bool Engine::stop(uint64_t deadline_ns) {
  stopping_ = true;
  while (!stopped_ && boottime_clock().now_ns() < deadline_ns) nap(kMillisecond);
  if (!stopped_) return false;
  if (thread_.joinable()) thread_.join();
  return true;
}

bool Engine::finish(uint64_t deadline_ns) {
  while (!held_.empty() && now_ns() < deadline_ns) {
    held_.front().wait_released(deadline_ns);
    look_at_held();
  }
  const bool is_over = held_.empty();
  if (!is_over) {
    checker_.add(FindingKind::kUnfinished, fmt::format("{}: pages are held for ever", name_));
  }
  frames_.check_all();
  return is_over;
}

void Engine::run() {
  while (!stopping_) {
    act();
    look_at_held();
    nap(random_.below(kLongestGapUs) * kMicrosecond);
  }
}

void Engine::act() {
  const uint64_t what = random_.below(16);
  if (what == 0) {
    const size_t removable = keys_.all.size() - keys_.kept;
    return remove(keys_.kept + random_.below(removable),
                  kWriteMs[random_.below(kWriteMs.size())] * kMillisecond);
  }
  std::vector<size_t> keys(1 + random_.below(what < 6 ? 4 : 12));
  const size_t first = what < 6 ? keys_.still() : 0;
  for (size_t& key : keys) key = first + random_.below(keys_.all.size() - first);
  if (what < 6) {
    put(keys, kWriteMs[random_.below(kWriteMs.size())] * kMillisecond);
  } else {
    fetch(keys, kFetchMs[random_.below(kFetchMs.size())] * kMillisecond, what % 2 == 0,
          random_.below(2) == 0);
  }
}

std::vector<PageVerdict> Engine::fetch(std::span<const size_t> keys, uint64_t in_ns, bool hedge,
                                       bool newest_known) {
  Running& running = held_.emplace_back();
  for (const size_t key : keys) {
    const PageKey& name = keys_.all[key];
    const auto bound = checker_.with_truth([&](Truth& truth) { return truth.bound(name); });
    Page page = {key, 0, bound};
    if (!frames_.take(page.frame)) break;
    running.requests.push_back({name, newest_known ? bound.at_least : 0,
                                destination(page.frame, keys_.length(key, page_bytes_))});
    running.pages.push_back(page);
  }
  running.verdicts.resize(running.requests.size());
  if (gpu_ != nullptr) gpu_->await_fills();
  const ProcessorWait processor;
  const uint64_t deadline_ns = now_ns() + in_ns;
  begin(running, deadline_ns, hedge);
  wait(running);
  ended(deadline_ns, "a fetch", processor, gpu_ == nullptr ? 0 : 2);
  take_verdicts(running);
  for (size_t page = 0; page < running.pages.size(); ++page) {
    judge(running, page);
    const PageVerdict& verdict = running.verdicts[page];
    if (verdict.verdict == Verdict::kReady && verdict.took_ns > in_ns) {
      checker_.add(FindingKind::kMissedDeadlines,
                   fmt::format("{}: key {}: ready, {} ns after its deadline", name_, keys[page],
                               verdict.took_ns - in_ns));
    }
    const bool is_trouble =
        verdict.reason == Reason::kStalled || verdict.reason == Reason::kUnreachable;
    if (is_trouble && in_ns >= kTimeEnoughNs) ++counts_.troubles;
    if (verdict.verdict == Verdict::kReady) {
      ++counts_.ready;
    } else {
      ++counts_.recompute[static_cast<size_t>(verdict.reason)];
    }
  }
  std::vector<PageVerdict> verdicts = running.verdicts;
  verdicts.resize(keys.size());
  give_back(running);
  look_at_held();
  return verdicts;
}

Slice Engine::destination(size_t frame, uint64_t bytes) const {
  return gpu_ == nullptr ? region_.slice(frames_.offset(frame), bytes) : gpu_->slice(frame, bytes);
}

void Engine::begin(Running& running, uint64_t deadline_ns, bool hedge) {
  if (gpu_ != nullptr) {
    running.ticket = gpu_->fetch(running.requests, deadline_ns);
    return;
  }
  running.fetch = lane_->fetch(running.requests, running.verdicts, deadline_ns, {.hedge = hedge});
}

void Engine::wait(Running& running) {
  running.fetch.wait();
  running.ticket.wait();
}

// Of a fetch into a GPU. The client's thread may write the `place` of a verdict until it is
// released; nothing writes to a page that is ready.
void Engine::take_verdicts(Running& running) {
  if (gpu_ == nullptr) return;
  const bool is_released = running.released();
  const std::span<const PageVerdict> given = running.ticket.verdicts();
  for (size_t page = 0; page < given.size(); ++page) {
    PageVerdict& verdict = running.verdicts[page];
    verdict.verdict = given[page].verdict;
    verdict.reason = given[page].reason;
    verdict.version = given[page].version;
    verdict.took_ns = given[page].took_ns;
    verdict.landed = given[page].landed;
    const bool is_ready = verdict.verdict == Verdict::kReady;
    verdict.place = is_released ? given[page].place : is_ready ? Place::kReleased : Place::kHeld;
  }
}

void Engine::ended(uint64_t deadline_ns, const char* what, const ProcessorWait& wait,
                   uint64_t others) {
  const uint64_t now = now_ns();
  if (now <= deadline_ns || lateness_.size() >= kMostLate) return;
  const ProcessorTime spent = wait.spent();
  lateness_.push_back({.ns = now - deadline_ns,
                       .what = fmt::format("{}: {} at +{:.3f} s", name_, what, checker_.seconds()),
                       .waited_ns = spent.waited_ns,
                       .ran_ns = spent.ran_ns,
                       .others = others});
}

// A page that is ready by a hedge lies in a place of the lane's, all others in their frames.
void Engine::judge(const Running& running, size_t page) {
  const PageVerdict& verdict = running.verdicts[page];
  const PageRequest& request = running.requests[page];
  const size_t key = running.pages[page].key;
  if (verdict.verdict == Verdict::kPending) {
    checker_.add(FindingKind::kMissedDeadlines,
                 fmt::format("{}: key {}: no verdict when its fetch was done", name_, key));
  }
  if (verdict.verdict != Verdict::kReady) return;
  if (verdict.landed == request.destination.data && verdict.place != Place::kReleased) {
    checker_.add(FindingKind::kLateLandings,
                 fmt::format("{}: key {}: ready, and still held", name_, key));
  }
  if (verdict.version < request.min_version) {
    checker_.add(FindingKind::kWentBack,
                 fmt::format("{}: key {}: version {:x} is less than was asked for", name_, key,
                             verdict.version));
  }
  const uint64_t length = request.destination.bytes;
  const std::span<const std::byte> bytes =
      verdict.landed == request.destination.data
          ? frames_.landed(running.pages[page].frame).first(length)
          : std::span(verdict.landed, length);
  const auto found = checker_.with_truth([&](Truth& truth) {
    return truth.judge(request.key, running.pages[page].bound, verdict.version, bytes);
  });
  if (found) checker_.add(found->kind, fmt::format("{}: key {}: {}", name_, key, found->sentence));
}

void Engine::give_back(Running& running) {
  for (size_t page = 0; page < running.pages.size(); ++page) {
    if (running.pages[page].returned || running.verdicts[page].place != Place::kReleased) continue;
    running.pages[page].returned = true;
    frames_.give_back(running.pages[page].frame);
  }
}

void Engine::look_at_held() {
  if (held_.empty()) return;
  if (lane_ != nullptr) lane_->progress();
  for (auto running = held_.begin(); running != held_.end();) {
    const bool is_over = running->released();  // before the last look at its verdicts
    if (is_over) take_verdicts(*running);
    give_back(*running);
    if (is_over) look_at_released(*running);
    running = is_over ? held_.erase(running) : std::next(running);
  }
}

void Engine::look_at_released(const Running& running) {
  for (size_t page = 0; page < running.pages.size(); ++page) {
    // The fetch owns a hedge's page for as long as the fetch exists.
    const PageVerdict& verdict = running.verdicts[page];
    const bool is_lent = verdict.landed != running.requests[page].destination.data;
    if (verdict.verdict == Verdict::kReady && is_lent) judge(running, page);
    if (running.pages[page].returned) continue;
    checker_.add(FindingKind::kUnfinished,
                 fmt::format("{}: a fetch is released and a page of it is not", name_));
  }
}

std::vector<PutResult> Engine::put(std::span<const size_t> keys, uint64_t in_ns) {
  std::vector<PutRequest> requests;
  std::vector<uint64_t> numbers;
  std::vector<size_t> frames;
  for (const size_t key : keys) {
    size_t frame = 0;
    if (!frames_.take(frame)) break;
    const PageKey& name = keys_.all[key];
    const uint64_t length = keys_.length(key, page_bytes_);
    numbers.push_back(checker_.with_truth([&](Truth& truth) { return truth.send_put(name); }));
    fill_page(frames_.frame(frame).first(length), name, numbers.back());
    requests.push_back({name, region_.slice(frames_.offset(frame), length)});
    frames.push_back(frame);
  }
  const ProcessorWait processor;
  const uint64_t deadline_ns = now_ns() + in_ns;
  Put put = client_->put(requests, deadline_ns);
  const std::span<const PutResult> waited = put.wait();
  std::vector<PutResult> results(waited.begin(), waited.end());
  ended(deadline_ns, "a put", processor);
  put.wait_released(kNever);
  for (const size_t frame : frames) frames_.give_back(frame);
  counts_.puts += requests.size();
  for (size_t page = 0; page < requests.size(); ++page) {
    if (results[page].code != Code::kOk) {
      counts_.troubles += is_of_silence(results[page].code) && in_ns >= kTimeEnoughNs ? 1 : 0;
      continue;
    }
    ++counts_.puts_acknowledged;
    const auto found = checker_.with_truth([&](Truth& truth) {
      return truth.acknowledge_put(requests[page].key, numbers[page], results[page].version);
    });
    if (found) {
      checker_.add(found->kind, fmt::format("{}: key {}: {}", name_, keys[page], found->sentence));
    }
  }
  results.resize(keys.size());
  return results;
}

void Engine::remove(size_t key, uint64_t in_ns) {
  const PageKey& name = keys_.all[key];
  const Truth::SentRemove sent =
      checker_.with_truth([&](Truth& truth) { return truth.send_remove(name); });
  const ProcessorWait processor;
  const uint64_t deadline_ns = now_ns() + in_ns;
  const Result<uint64_t> removed = client_->remove({&name, 1}, deadline_ns).wait();
  ended(deadline_ns, "a remove", processor);
  ++counts_.removes;
  if (!removed) {
    counts_.troubles += is_of_silence(removed.error().code) ? 1 : 0;
    return;
  }
  ++counts_.removes_acknowledged;
  checker_.with_truth([&](Truth& truth) { truth.acknowledge_remove(name, sent); });
}

}  // namespace farpage::processes
