#pragma once

#include <fmt/format.h>

#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "sim/page_frames.h"
#include "sim/sim_engine.h"
#include "tests/tier/ahead/prefetch_fixture.h"

namespace farpage {

// One engine's thread with a prefetch lane in a simulation, with many demands under way. Every
// verdict is judged at the instant at which it is given, by what is known of the pages without any
// checksum; and what is lent once more, before it goes back.
class PrefetchingEngine {
 public:
  struct Counts {
    uint64_t ready = 0;
    uint64_t recompute = 0;
    uint64_t lent = 0;
    uint64_t held = 0;
    uint64_t cached = 0;  // of those lent: allowed to be old
  };

  PrefetchingEngine(sim::World& world, std::unique_ptr<Client> client, Truth& truth,
                    Findings& findings, uint64_t page_bytes, const PrefetchOptions& options)
      : world_(world),
        client_(std::move(client)),
        truth_(truth),
        findings_(findings),
        page_bytes_(page_bytes),
        frames_(kFrames, page_bytes,
                [&findings](size_t frame) {
                  findings.add(FindingKind::kLateLandings,
                               fmt::format("a late landing in frame {}", frame));
                }),
        region_(
            client_->register_memory({frames_.memory().data(), frames_.memory().size()}).value()),
        lane_(PrefetchLane::open(*client_, options, std::make_unique<ScriptedPrefetcher>(script_))
                  .value()) {}

  PrefetchLane& lane() { return lane_; }
  Client& client() { return *client_; }
  Script& script() { return script_; }
  const Counts& counts() const { return counts_; }
  bool idle() const { return running_.empty(); }
  void check_frames() { frames_.check_all(); }

  void start(const std::vector<uint64_t>& key_numbers, uint64_t in_ns, bool allow_cached,
             bool newest_known) {
    Running& running = running_.emplace_back();
    running.id = ++last_id_;
    running.allow_cached = allow_cached;
    running.sent_ns = world_.now_ns();
    running.deadline_ns = running.sent_ns + in_ns;
    for (const uint64_t number : key_numbers) {
      Page page = {number, 0, truth_.bound(sim_key(number))};
      if (!frames_.take(page.frame)) break;
      const uint64_t length = length_of(number, page_bytes_);
      running.requests.push_back({sim_key(number), newest_known ? page.bound.at_least : 0,
                                  region_.slice(frames_.offset(page.frame), length)});
      running.pages.push_back(page);
    }
    running.verdicts.resize(running.requests.size());
    // So that this engine's thread runs at the deadline, whatever the others wait for.
    world_.after(in_ns, [this, id = running.id] { at_deadline(id); });
    running.fetch = lane_.fetch(running.requests, running.verdicts, running.deadline_ns,
                                {.fetch = {}, .allow_cached = allow_cached});
    if (in_ns == 0 && !running.fetch.done()) {
      findings_.add(FindingKind::kMissedDeadlines, "no verdict though there was no time at all");
    }
    look(running);
  }

  // Progress, and everything that has ended since.
  void observe() {
    lane_.progress();
    for (Running& running : running_) look(running);
    std::erase_if(running_, [this](Running& running) {
      if (!running.fetch.released()) return false;
      end(running);
      return true;
    });
  }
  // The oldest demand goes, whether it has ended or not.
  void drop_one() {
    if (running_.empty()) return;
    Running& running = running_.front();
    look(running);
    judge_lent(running);
    // Its thread is busy until nobody writes to a destination any more.
    is_busy_ = true;
    running.fetch = DemandFetch();
    is_busy_ = false;
    busy_until_ns_ = world_.now_ns();
    for (size_t i = 0; i < running.pages.size(); ++i) {
      Page& page = running.pages[i];
      if (running.verdicts[i].verdict == Verdict::kPending ||
          running.verdicts[i].place != Place::kReleased) {
        findings_.add(FindingKind::kUnfinished, "a demand has gone without a word of a page");
      }
      if (!page.returned) frames_.give_back(page.frame);
    }
    running_.pop_front();
  }

 private:
  static constexpr size_t kFrames = 256;

  struct Page {
    uint64_t key_number;
    size_t frame;
    Truth::Bound bound;
    bool judged = false;
    bool returned = false;
  };
  struct Running {
    uint64_t id = 0;
    uint64_t sent_ns = 0;
    uint64_t deadline_ns = 0;
    bool allow_cached = false;
    std::vector<PageRequest> requests;
    std::vector<PageVerdict> verdicts;
    std::vector<Page> pages;
    DemandFetch fetch;
  };

  void at_deadline(uint64_t id) {
    if (is_busy_) return;
    lane_.progress();
    for (Running& running : running_) {
      if (running.id != id) continue;
      if (!running.fetch.done()) {
        findings_.add(FindingKind::kMissedDeadlines, "no verdict at the deadline");
      }
      look(running);
    }
  }

  void look(Running& running) {
    for (size_t i = 0; i < running.pages.size(); ++i) {
      Page& page = running.pages[i];
      const PageVerdict& verdict = running.verdicts[i];
      if (verdict.verdict == Verdict::kPending || page.returned) continue;
      if (!page.judged) {
        page.judged = true;
        judge(running, i);
        counts_.held += verdict.place == Place::kHeld;
      }
      if (verdict.place == Place::kReleased && !lies_in_frame(running, i)) {
        page.returned = true;
        frames_.give_back(page.frame);
      }
    }
  }
  // Ready pages there stay until the demand goes, as an engine would leave them.
  static bool lies_in_frame(const Running& running, size_t page) {
    return running.verdicts[page].landed == running.requests[page].destination.data;
  }

  void judge(const Running& running, size_t page) {
    const PageVerdict& verdict = running.verdicts[page];
    const uint64_t look_ns = std::max(running.deadline_ns, busy_until_ns_);
    if (world_.now_ns() > look_ns) {
      findings_.add(FindingKind::kMissedDeadlines,
                    fmt::format("a verdict {} ns late", world_.now_ns() - running.deadline_ns));
    }
    if (verdict.verdict != Verdict::kReady) {
      ++counts_.recompute;
      return;
    }
    ++counts_.ready;
    const bool is_lent = !lies_in_frame(running, page);
    counts_.lent += is_lent;
    counts_.cached += is_lent && running.allow_cached;
    if (running.sent_ns + verdict.took_ns >= running.deadline_ns) {
      findings_.add(FindingKind::kMissedDeadlines, "a page is ready after its deadline");
    }
    if (verdict.version < running.requests[page].min_version) {
      findings_.add(FindingKind::kWentBack, "a version that is less than was asked for");
    }
    judge_bytes(running, page);
  }
  void judge_bytes(const Running& running, size_t page) {
    const bool may_be_old = running.allow_cached && !lies_in_frame(running, page);
    const PageKey key = sim_key(running.pages[page].key_number);
    const PageVerdict& verdict = running.verdicts[page];
    const uint64_t length = running.requests[page].destination.bytes;
    if (auto found = truth_.judge(key, may_be_old ? Truth::Bound() : running.pages[page].bound,
                                  verdict.version, {verdict.landed, length})) {
      findings_.add(found->kind,
                    fmt::format("key {}: {}", running.pages[page].key_number, found->sentence));
    }
  }
  void judge_lent(const Running& running) {
    for (size_t page = 0; page < running.pages.size(); ++page) {
      if (running.verdicts[page].verdict == Verdict::kReady) judge_bytes(running, page);
    }
  }
  void end(Running& running) {
    judge_lent(running);
    for (Page& page : running.pages) {
      if (!page.judged) findings_.add(FindingKind::kUnfinished, "released without a verdict");
      if (!page.returned) frames_.give_back(page.frame);
    }
  }

  sim::World& world_;
  std::unique_ptr<Client> client_;
  Truth& truth_;
  Findings& findings_;
  uint64_t page_bytes_;
  PageFrames frames_;
  Region region_;
  Script script_;
  PrefetchLane lane_;
  std::list<Running> running_;
  uint64_t last_id_ = 0;
  bool is_busy_ = false;
  uint64_t busy_until_ns_ = 0;
  Counts counts_;
};

}  // namespace farpage
