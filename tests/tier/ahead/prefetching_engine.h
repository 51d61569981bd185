#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "sim/judged_fetches.h"
#include "tests/tier/ahead/prefetch_fixture.h"

namespace farpage {

// One engine's thread with a prefetch lane in a simulation, with many demands under way.
class PrefetchingEngine {
 public:
  PrefetchingEngine(sim::World& world, std::unique_ptr<Client> client, Truth& truth,
                    Findings& findings, uint64_t page_bytes, const PrefetchOptions& options)
      : client_(std::move(client)),
        findings_(findings),
        demands_(world, *client_, truth, findings, page_bytes, [this] { lane_.progress(); }),
        lane_(PrefetchLane::open(*client_, options, std::make_unique<ScriptedPrefetcher>(script_))
                  .value()) {
    demands_.on_verdict = [this](const Running& running, size_t page) {
      check_time(running, page);
    };
  }
  ~PrefetchingEngine() { demands_.end(); }

  PrefetchLane& lane() { return lane_; }
  Client& client() { return *client_; }
  Script& script() { return script_; }
  const JudgedFetches<DemandFetch>::Counts& counts() const { return demands_.counts(); }
  bool idle() const { return demands_.idle(); }
  void check_frames() { demands_.frames().check_all(); }

  void start(const std::vector<uint64_t>& key_numbers, uint64_t in_ns, bool allow_cached,
             bool newest_known) {
    const auto begin = [this](Running& running) {
      return lane_.fetch(running.requests, running.verdicts, running.deadline_ns,
                         {.fetch = {}, .allow_cached = running.allow_cached});
    };
    demands_.start(key_numbers, in_ns, newest_known, allow_cached, begin);
  }

  // Progress, and everything that has ended since.
  void observe() {
    lane_.progress();
    demands_.look();
    demands_.end_released();
  }
  // The oldest demand goes, whether it has ended or not.
  void drop_one() {
    if (idle()) return;
    Running dropped = demands_.take(demands_.running().begin());
    demands_.look(dropped);
    demands_.judge_lent(dropped);
    // Its thread is busy until nobody writes to a destination any more.
    demands_.pause();
    dropped.fetch = DemandFetch();
    demands_.resume();
    for (const PageVerdict& verdict : dropped.verdicts) {
      if (verdict.verdict == Verdict::kPending || verdict.place != Place::kReleased) {
        findings_.add(FindingKind::kUnfinished, "a demand has gone without a word of a page");
      }
    }
    demands_.give_back(dropped);
  }

 private:
  using Running = JudgedFetches<DemandFetch>::Running;

  // Its thread may have been busy when the verdict was given: then the lane alone knows when.
  void check_time(const Running& running, size_t page) {
    const PageVerdict& verdict = running.verdicts[page];
    if (verdict.verdict != Verdict::kReady) return;
    if (running.sent_ns + verdict.took_ns >= running.deadline_ns) {
      findings_.add(FindingKind::kMissedDeadlines, "a page is ready after its deadline");
    }
  }

  std::unique_ptr<Client> client_;
  Findings& findings_;
  JudgedFetches<DemandFetch> demands_;
  Script script_;
  PrefetchLane lane_;  // goes before the memory that it reads into
};

}  // namespace farpage
