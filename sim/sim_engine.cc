#include "sim/sim_engine.h"

#include <fmt/format.h>

#include <iterator>
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
      fetches_(world, *client_, truth, findings, page_bytes, [this] { lane_->progress(); }),
      lane_(std::make_unique<Lane>(open_lane(*client_))) {
  fetches_.on_verdict = [this](const RunningFetch& running, size_t page) {
    verdict_given(running, page);
  };
}

SimEngine::~SimEngine() {
  fetches_.end();
}

// Reads that have ended by now are judged now: a verdict that is seen later was given later.
void SimEngine::pause() {
  observe();
  fetches_.pause();
}

void SimEngine::resume() {
  fetches_.resume();
  lane_->progress();
  fetches_.look();
}

void SimEngine::start_fetch(const std::vector<uint64_t>& key_numbers, uint64_t in_ns,
                            bool newest_known) {
  counts_.hopeless += in_ns < kLeastReadNs ? 1 : 0;
  // Every other one may be hedged, where there are replicas.
  const auto begin = [this](RunningFetch& running) {
    return lane_->fetch(running.requests, running.verdicts, running.deadline_ns,
                        {.hedge = running.id % 2 == 0});
  };
  fetches_.start(key_numbers, in_ns, newest_known, false, begin);
}

void SimEngine::cancel_last_fetch() {
  auto& running = fetches_.running();
  if (running.empty() || running.back().fetch.done()) return;
  // The engine no longer asks for its verdicts, not even at its deadline.
  RunningFetch cancelled = fetches_.take(std::prev(running.end()));
  ++counts_.cancelled;
  cancelled.fetch = {};
  fetches_.give_back(cancelled);
}

void SimEngine::verdict_given(const RunningFetch& running, size_t page) {
  const PageVerdict& verdict = running.verdicts[page];
  const Asked asked = {this, running.requests[page].key, running.sent_ns, running.deadline_ns};
  witness_.page_judged(running.requests[page].destination.data, asked, verdict);
  if (verdict.verdict == Verdict::kReady && world_.now_ns() > running.deadline_ns) {
    findings_.add(FindingKind::kMissedDeadlines, "a page is ready after its deadline");
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
    if (!fetches_.frames().take(index)) break;
    const PageKey key = sim_key(key_number);
    const uint64_t length = length_of(key_number, page_bytes_);
    const uint64_t number = truth_.send_put(key);
    witness_.put_sent(key, number);
    fill_page(fetches_.frames().frame(index).first(length), key, number);
    requests.push_back({key, fetches_.slice(index, length)});
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
    FARPAGE_CHECK(result.code == Code::kOk || !running.put.why().empty());
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
  for (const size_t index : running.frames) fetches_.frames().give_back(index);
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
  if (paused()) return;
  lane_->progress();
  fetches_.look();
  fetches_.end_released();
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
    FARPAGE_CHECK(removed || !removed.error().message.empty());
    witness_.remove_ended(asked, removed ? Code::kOk : removed.error().code);
    if (removed) {
      ++counts_.removes_acknowledged;
      truth_.acknowledge_remove(running.key, running.sent);
    }
    return true;
  });
}

SimEngine::Counts SimEngine::counts() const {
  Counts counts = counts_;
  counts.ready = fetches_.counts().ready;
  counts.recompute = fetches_.counts().recompute;
  counts.held = fetches_.counts().held;
  counts.hedged = fetches_.counts().lent;
  return counts;
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
  RunningFetch& running = fetches_.running().back();
  running.fetch.wait();
  fetches_.look(running);
  const PageVerdict verdict = running.verdicts[0];
  FARPAGE_CHECK(running.fetch.wait_released(kNever));
  observe();
  return verdict;
}

}  // namespace farpage
