#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <list>
#include <optional>
#include <vector>

#include "sim/findings.h"
#include "sim/network/world.h"
#include "sim/sim_engine.h"
#include "sim/truth.h"
#include "tier/push/push.h"

namespace farpage {

// Pushes of one lane, many under way, with a verdict for each page judged at the instant that it is
// given: observe() looks between two events of the world. Violations go to the findings: wrong or
// older bytes, a verdict after its deadline or of two minds, a page that changes while its place is
// held.
class CheckedPushes {
 public:
  struct Counts {
    uint64_t ready = 0;
    std::array<uint64_t, kReasons> recompute{};  // by reason
    uint64_t dropped = 0;                        // pushes, before they were done
  };

  // All but the lane outlives it.
  CheckedPushes(sim::World& world, PushLane lane, Truth& truth, Findings& findings,
                uint64_t page_bytes)
      : world_(world),
        lane_(std::move(lane)),
        truth_(truth),
        findings_(findings),
        page_bytes_(page_bytes) {}
  ~CheckedPushes() {
    running_.clear();
    kept_.clear();
  }

  // Ready pages are kept so long once the push is done. `beyond`: so much newer than the newest
  // version that is known; nothing: of whatever version.
  void start(const std::vector<uint64_t>& key_numbers, uint64_t in_ns, uint64_t keep_ns,
             std::optional<Version> beyond) {
    Running& push = running_.emplace_back();
    push.id = ++last_;
    push.deadline_ns = world_.now_ns() + in_ns;
    push.keep_ns = keep_ns;
    for (const uint64_t number : key_numbers) {
      const Truth::Bound bound = truth_.bound(sim_key(number));
      const uint64_t bytes = number % 3 == 0 ? 0 : length_of(number, page_bytes_);
      push.requests.push_back({sim_key(number), beyond ? bound.at_least + *beyond : 0, bytes});
      push.bounds.push_back(bound);
    }
    push.verdicts.resize(push.requests.size());
    push.told.resize(push.requests.size());
    push.copies.resize(push.requests.size());
    world_.after(in_ns, [this, id = push.id] { at_deadline(id); });
    push.push = lane_.push(push.requests, push.verdicts, push.deadline_ns);
    observe(push);
  }

  void observe() {
    lane_.progress();
    for (Running& push : running_) observe(push);
    for (auto push = running_.begin(); push != running_.end();) {
      const bool over = push->push.done() && world_.now_ns() >= push->keep_until_ns;
      if (over) check_copies(*push);
      push = over ? running_.erase(push) : std::next(push);
    }
    std::erase_if(kept_, [this](const Kept& kept) {
      if (world_.now_ns() < kept.until_ns) return false;
      check(kept.copy, {kept.place.slice().data + sizeof(PageHeader), kept.copy.size()});
      return true;
    });
  }

  // One of them, whatever has become of it.
  void drop_one(uint64_t number) {
    if (running_.empty()) return;
    const auto push = std::next(running_.begin(), static_cast<long>(number % running_.size()));
    check_copies(*push);
    const bool done = push->push.done();
    push->push = Push();
    observe_verdicts(*push);
    if (!done) {
      ++counts_.dropped;
      for (const PageVerdict& verdict : push->verdicts) {
        if (verdict.verdict != Verdict::kPending) continue;
        findings_.add(FindingKind::kUnfinished, "a page of a push that was dropped is pending");
      }
    }
    running_.erase(push);
  }
  // The places of a push's ready pages, beyond the push.
  void take_places(uint64_t number, uint64_t keep_ns) {
    if (running_.empty()) return;
    Running& push = *std::next(running_.begin(), static_cast<long>(number % running_.size()));
    check_copies(push);
    for (size_t page = 0; page < push.requests.size(); ++page) {
      if (push.copies[page].empty()) continue;
      kept_.push_back(
          {push.push.take(page), std::move(push.copies[page]), world_.now_ns() + keep_ns});
      push.copies[page].clear();
    }
  }

  bool idle() const { return running_.empty() && kept_.empty(); }
  PushStats stats() const { return lane_.stats(); }
  const Counts& counts() const { return counts_; }

  // Blocks; for the end of a history.
  PageVerdict push_now(uint64_t key_number, uint64_t in_ns) {
    start({key_number}, in_ns, 0, std::nullopt);
    running_.back().push.wait();
    observe(running_.back());
    const PageVerdict verdict = running_.back().verdicts[0];
    observe();
    return verdict;
  }

 private:
  struct Running {
    uint64_t id = 0;
    uint64_t deadline_ns = 0;
    uint64_t keep_ns = 0;
    uint64_t keep_until_ns = kNever;
    std::vector<PushedPage> requests;
    std::vector<PageVerdict> verdicts;
    std::vector<Truth::Bound> bounds;
    std::vector<PageVerdict> told;               // as the verdict was when it was given
    std::vector<std::vector<std::byte>> copies;  // of what is ready, and in the push's places
    Push push;
  };
  struct Kept {
    PageLease place;
    std::vector<std::byte> copy;
    uint64_t until_ns;
  };

  void at_deadline(uint64_t id) {
    const auto push = std::ranges::find(running_, id, &Running::id);
    if (push == running_.end()) return;
    lane_.progress();
    if (!push->push.done()) {
      findings_.add(FindingKind::kMissedDeadlines, "no verdict at the deadline");
    }
    observe(*push);
  }

  void observe(Running& push) {
    observe_verdicts(push);
    if (!push.push.done() || push.keep_until_ns != kNever) return;
    push.keep_until_ns = world_.now_ns() + push.keep_ns;
    const auto count = push.push.counter().value();
    const auto ready = std::ranges::count(push.told, Verdict::kReady, &PageVerdict::verdict);
    if (count.ok != static_cast<uint64_t>(ready) ||
        count.ok + count.failed != push.requests.size()) {
      findings_.add(FindingKind::kUnfinished,
                    fmt::format("{} ready and {} not are told of {} pages, {} of them ready",
                                count.ok, count.failed, push.requests.size(), ready));
    }
  }

  // Of which each is given once, and stays as it is.
  void observe_verdicts(Running& push) {
    for (size_t page = 0; page < push.requests.size(); ++page) {
      const PageVerdict& verdict = push.verdicts[page];
      PageVerdict& told = push.told[page];
      if (told.verdict != Verdict::kPending) {
        if (verdict.verdict != told.verdict || verdict.reason != told.reason ||
            verdict.version != told.version) {
          findings_.add(FindingKind::kUnfinished, "a verdict has changed after it was given");
        }
        continue;
      }
      if (verdict.verdict == Verdict::kPending) continue;
      told = verdict;
      judge(push, page);
    }
  }

  void judge(Running& push, size_t page) {
    const PageVerdict& verdict = push.verdicts[page];
    if (world_.now_ns() > push.deadline_ns) {
      findings_.add(FindingKind::kMissedDeadlines,
                    fmt::format("a verdict {} ns late", world_.now_ns() - push.deadline_ns));
    }
    if (verdict.verdict != Verdict::kReady) {
      ++counts_.recompute[static_cast<size_t>(verdict.reason)];
      return;
    }
    ++counts_.ready;
    const PushedPage& request = push.requests[page];
    const std::span<const std::byte> payload = push.push.payload(page);
    push.copies[page].assign(payload.begin(), payload.end());
    if (request.payload_bytes != 0 && payload.size() != request.payload_bytes) {
      findings_.add(FindingKind::kWrongBytes, "a page of another length");
    }
    if (verdict.version < request.min_version) {
      findings_.add(FindingKind::kWentBack, "an older version than was asked for");
    }
    if (auto found = truth_.judge(request.key, push.bounds[page], verdict.version, payload)) {
      findings_.add(found->kind, found->sentence);
    }
  }

  // That nobody has written what the caller holds (I4).
  void check(const std::vector<std::byte>& copy, std::span<const std::byte> bytes) {
    if (!std::ranges::equal(copy, bytes)) {
      findings_.add(FindingKind::kLateLandings, "a page that is held is written");
    }
  }
  void check_copies(const Running& push) {
    for (size_t page = 0; page < push.requests.size(); ++page) {
      if (!push.copies[page].empty()) check(push.copies[page], push.push.payload(page));
    }
  }

  sim::World& world_;
  PushLane lane_;
  Truth& truth_;
  Findings& findings_;
  const uint64_t page_bytes_;
  Counts counts_;
  std::list<Running> running_;
  std::vector<Kept> kept_;
  uint64_t last_ = 0;
};

}  // namespace farpage
