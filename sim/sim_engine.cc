#include "sim/sim_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace farpage {
namespace {

// Bytes are taken, they land, and they complete.
constexpr uint64_t kLeastReadNs = 3 * sim::SimOptions{}.delay_min_ns;

EngineWitness nobody;

// In a harsh history the link may be lost again and again while a lane is being opened.
Lane open_lane(Client& client) {
  constexpr int kAttempts = 50;
  for (int attempt = 1; attempt < kAttempts; ++attempt) {
    if (auto lane = client.open_lane(); lane) return std::move(*lane);
  }
  return client.open_lane().value();
}

}  // namespace

void live_until(sim::World& world, const SimEngines& engines, uint64_t time_ns) {
  world.wait_until(time_ns, [&engines] {
    for (const auto& engine : engines) engine->observe();
    return false;
  });
}

bool wait_until_idle(sim::World& world, const SimEngines& engines, uint64_t deadline_ns) {
  return world.wait_until(deadline_ns, [&engines] {
    bool idle = true;
    for (const auto& engine : engines) {
      engine->observe();
      idle &= engine->idle() && engine->client().reachable();
    }
    return idle;
  });
}

PageKey sim_key(uint64_t number) {
  static std::vector<PageKey> keys;
  while (keys.size() <= number) keys.push_back(make_page_key("sim", std::to_string(keys.size())));
  return keys[number];
}

SimEngine::SimEngine(sim::World& world, std::unique_ptr<Client> client, Truth& truth,
                     Findings& findings, uint64_t page_bytes, EngineWitness* witness)
    : world_(world),
      client_(std::move(client)),
      truth_(truth),
      findings_(findings),
      witness_(witness == nullptr ? nobody : *witness),
      page_bytes_(page_bytes),
      frames_(kFrames, page_bytes,
              [&findings](size_t frame) {
                findings.add(FindingKind::kLateLandings,
                             fmt::format("a late landing in frame {}", frame));
              }),
      region_(client_->register_memory({frames_.memory().data(), frames_.memory().size()}).value()),
      lane_(std::make_unique<Lane>(open_lane(*client_))),
      awaited_(kFrames) {}

SimEngine::~SimEngine() {
  fetches_.clear();
}

bool SimEngine::awaits(const std::byte* destination) const {
  return owns(destination) && awaited_[frames_.index_of(destination)];
}

// Reads that have ended by now are judged now: a verdict that is seen later was given later.
void SimEngine::pause() {
  observe();
  paused_ = true;
}

void SimEngine::resume() {
  paused_ = false;
  resumed_ns_ = world_.now_ns();
  lane_->progress();
  for (RunningFetch& running : fetches_) observe_fetch(running);
}

void SimEngine::start_fetch(const std::vector<uint64_t>& key_numbers, uint64_t in_ns,
                            bool newest_known) {
  RunningFetch& running = fetches_.emplace_back();
  running.id = ++last_fetch_;
  running.sent_ns = world_.now_ns();
  running.deadline_ns = running.sent_ns + in_ns;
  for (const uint64_t number : key_numbers) {
    RunningPage page = {number, 0, truth_.bound(sim_key(number))};
    if (!frames_.take(page.frame)) break;
    const uint64_t length = length_of(number, page_bytes_);
    running.requests.push_back({sim_key(number), newest_known ? page.bound.at_least : 0,
                                region_.slice(frames_.offset(page.frame), length)});
    running.pages.push_back(page);
    awaited_[page.frame] = true;
  }
  running.verdicts.resize(running.requests.size());
  counts_.hopeless += in_ns < kLeastReadNs ? 1 : 0;
  // So that this engine's thread runs at the deadline, whatever the others wait for.
  world_.after(in_ns, [this, id = running.id] { at_deadline(id); });
  // Every other one may be hedged, where there are replicas.
  running.fetch = lane_->fetch(running.requests, running.verdicts, running.deadline_ns,
                               {.hedge = running.id % 2 == 0});
  if (in_ns == 0 && !running.fetch.done()) {
    findings_.add(FindingKind::kMissedDeadlines, "no verdict though there was no time at all");
  }
  observe_fetch(running);
}

void SimEngine::cancel_last_fetch() {
  if (fetches_.empty() || fetches_.back().fetch.done()) return;
  // The engine no longer asks for its verdicts, not even at its deadline.
  RunningFetch cancelled = std::move(fetches_.back());
  fetches_.pop_back();
  ++counts_.cancelled;
  cancelled.fetch = {};
  for (const RunningPage& page : cancelled.pages) {
    if (page.returned) continue;
    awaited_[page.frame] = false;
    frames_.give_back(page.frame);
  }
}

void SimEngine::at_deadline(uint64_t id) {
  if (paused_) return;
  const auto found =
      std::ranges::find_if(fetches_, [id](const RunningFetch& each) { return each.id == id; });
  if (found == fetches_.end()) return;
  lane_->progress();
  if (!found->fetch.done()) {
    findings_.add(FindingKind::kMissedDeadlines, "no verdict at the deadline");
  }
  observe_fetch(*found);
}

void SimEngine::observe_fetch(RunningFetch& running) {
  for (size_t i = 0; i < running.pages.size(); ++i) {
    RunningPage& page = running.pages[i];
    const PageVerdict& verdict = running.verdicts[i];
    if (verdict.verdict == Verdict::kPending || page.returned) continue;
    if (!page.judged) {
      page.judged = true;
      awaited_[page.frame] = false;
      judge(running, i);
      counts_.held += verdict.place == Place::kHeld;
    }
    if (verdict.place == Place::kReleased) {
      page.returned = true;
      frames_.give_back(page.frame);
    }
  }
}

void SimEngine::judge(const RunningFetch& running, size_t page) {
  const uint64_t key_number = running.pages[page].key_number;
  const PageVerdict& verdict = running.verdicts[page];
  const Asked asked = {this, sim_key(key_number), running.sent_ns, running.deadline_ns};
  witness_.page_judged(running.requests[page].destination.data, asked, verdict);
  if (world_.now_ns() > std::max(running.deadline_ns, resumed_ns_)) {
    findings_.add(FindingKind::kMissedDeadlines,
                  fmt::format("a verdict {} ns late", world_.now_ns() - running.deadline_ns));
  }
  if (verdict.verdict != Verdict::kReady) {
    ++counts_.recompute;
    return;
  }
  ++counts_.ready;
  if (world_.now_ns() > running.deadline_ns) {
    findings_.add(FindingKind::kMissedDeadlines, "a page is ready after its deadline");
  }
  const PageRequest& request = running.requests[page];
  const bool in_place = verdict.landed == request.destination.data;
  counts_.hedged += in_place ? 0 : 1;
  if (in_place && verdict.place != Place::kReleased) {
    findings_.add(FindingKind::kLateLandings, "a page that is ready is still held");
  }
  if (verdict.version < request.min_version) {
    findings_.add(FindingKind::kWentBack,
                  fmt::format("key {}: version {:x} is less than was asked for", key_number,
                              verdict.version));
  }
  judge_bytes(running, page);
}

void SimEngine::judge_bytes(const RunningFetch& running, size_t page) {
  const uint64_t key_number = running.pages[page].key_number;
  const PageVerdict& verdict = running.verdicts[page];
  const uint64_t length = running.requests[page].destination.bytes;
  if (auto found = truth_.judge(sim_key(key_number), running.pages[page].bound, verdict.version,
                                {verdict.landed, length})) {
    findings_.add(found->kind, fmt::format("key {}: {}", key_number, found->sentence));
  }
}

SimEngine::RunningPut SimEngine::send_put(const std::vector<uint64_t>& key_numbers,
                                          uint64_t in_ns) {
  const uint64_t sent_ns = world_.now_ns();
  std::vector<PutRequest> requests;
  std::vector<SentPage> pages;
  std::vector<size_t> frames;
  for (const uint64_t key_number : key_numbers) {
    size_t index = 0;
    if (!frames_.take(index)) break;
    const PageKey key = sim_key(key_number);
    const uint64_t length = length_of(key_number, page_bytes_);
    const uint64_t number = truth_.send_put(key);
    witness_.put_sent(key, number);
    fill_page(frames_.frame(index).first(length), key, number);
    requests.push_back({key, region_.slice(frames_.offset(index), length)});
    pages.push_back({key, number});
    frames.push_back(index);
  }
  counts_.puts += pages.size();
  Put put = client_->put(requests, sent_ns + in_ns);
  return {std::move(put), std::move(pages), std::move(frames), sent_ns, sent_ns + in_ns};
}

void SimEngine::end_put(RunningPut& running) {
  running.ended = true;
  const std::span<const PutResult> results = running.put.wait();
  for (size_t page = 0; page < running.pages.size(); ++page) {
    const SentPage& sent = running.pages[page];
    const PutResult& result = results[page];
    const Asked asked = {this, sent.key, running.sent_ns, running.deadline_ns};
    witness_.put_ended(asked, sent.number, result);
    if (result.code != Code::kOk) continue;
    ++counts_.puts_acknowledged;
    if (auto found = truth_.acknowledge_put(sent.key, sent.number, result.version)) {
      findings_.add(found->kind, std::move(found->sentence));
    }
  }
}

// Whether its frames are read no more, which are then given back.
bool SimEngine::released(RunningPut& running, uint64_t deadline_ns) {
  if (!running.put.wait_released(deadline_ns)) return false;
  for (const size_t index : running.frames) frames_.give_back(index);
  return true;
}

void SimEngine::start_put(const std::vector<uint64_t>& key_numbers, uint64_t in_ns) {
  puts_.push_back(send_put(key_numbers, in_ns));
}

void SimEngine::start_remove(uint64_t key_number, uint64_t in_ns) {
  const PageKey key = sim_key(key_number);
  const uint64_t deadline = world_.now_ns() + in_ns;
  const Truth::SentRemove sent = truth_.send_remove(key);
  witness_.remove_sent(key);
  removes_.push_back({client_->remove({&key, 1}, deadline), key, sent, world_.now_ns(), deadline});
}

void SimEngine::check_contains(uint64_t key_number, uint64_t in_ns) {
  const uint64_t deadline = world_.now_ns() + in_ns;
  const bool found = lane_->contains(sim_key(key_number), deadline);
  if (world_.now_ns() > deadline) {
    findings_.add(FindingKind::kMissedDeadlines, "contains() has come back late");
  }
  if (found && truth_.puts(sim_key(key_number)) == 0) {
    findings_.add(FindingKind::kWrongBytes,
                  fmt::format("key {} was never put, and is there", key_number));
  }
}

void SimEngine::observe() {
  if (paused_) return;
  lane_->progress();
  for (RunningFetch& running : fetches_) observe_fetch(running);
  std::erase_if(fetches_, [this](const RunningFetch& running) {
    if (!running.fetch.released()) return false;
    const auto is_back = [](const RunningPage& page) { return page.returned; };
    if (!std::ranges::all_of(running.pages, is_back)) {
      findings_.add(FindingKind::kUnfinished, "a fetch is released and a page of it is not");
    }
    for (size_t page = 0; page < running.pages.size(); ++page) {
      // The fetch owns a hedge's page for as long as the fetch exists.
      const PageVerdict& verdict = running.verdicts[page];
      const bool is_lent = verdict.landed != running.requests[page].destination.data;
      if (verdict.verdict == Verdict::kReady && is_lent) judge_bytes(running, page);
    }
    return true;
  });
  std::erase_if(puts_, [this](RunningPut& running) {
    if (!running.ended && !running.put.done() && world_.now_ns() < running.deadline_ns) {
      return false;
    }
    if (!running.ended) end_put(running);
    return released(running, 0);
  });
  std::erase_if(removes_, [this](RunningRemove& running) {
    if (!running.remove.done() && world_.now_ns() < running.deadline_ns) return false;
    const Result<uint64_t> removed = running.remove.wait();
    const Asked asked = {this, running.key, running.sent_ns, running.deadline_ns};
    witness_.remove_ended(asked, removed ? Code::kOk : removed.error().code);
    if (removed) {
      ++counts_.removes_acknowledged;
      truth_.acknowledge_remove(running.key, running.sent);
    }
    return true;
  });
}

PutResult SimEngine::put_now(uint64_t key_number, uint64_t in_ns) {
  RunningPut running = send_put({key_number}, in_ns);
  FARPAGE_CHECK(running.pages.size() == 1);
  end_put(running);
  const PutResult result = running.put.wait()[0];
  FARPAGE_CHECK(released(running, kNever));
  return result;
}

PageVerdict SimEngine::fetch_now(uint64_t key_number, uint64_t in_ns) {
  start_fetch({key_number}, in_ns, false);
  RunningFetch& running = fetches_.back();
  running.fetch.wait();
  observe_fetch(running);
  const PageVerdict verdict = running.verdicts[0];
  FARPAGE_CHECK(running.fetch.wait_released(kNever));
  observe();
  return verdict;
}

}  // namespace farpage
