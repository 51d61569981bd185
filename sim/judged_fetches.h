#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/findings.h"
#include "sim/network/world.h"
#include "sim/page_frames.h"
#include "sim/truth.h"
#include "tier/client.h"

namespace farpage {

PageKey sim_key(uint64_t number);

// Pages of odd keys are half as long.
inline uint64_t length_of(uint64_t key_number, uint64_t page_bytes) {
  return key_number % 2 == 0 ? page_bytes : page_bytes / 2;
}

// An engine's memory, and the fetches into it that are under way. Every verdict is judged at the
// instant at which it is given, by what is known of the pages without any checksum; what must never
// be goes to the findings. `Handle` is a Fetch, or a DemandFetch.
template <typename Handle>
class JudgedFetches {
 public:
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
    bool allow_cached = false;  // what does not lie in its frame may be of any time
    std::vector<PageRequest> requests;
    std::vector<PageVerdict> verdicts;
    std::vector<Page> pages;
    Handle fetch;

    bool is_in_frame(size_t page) const {
      return verdicts[page].landed == requests[page].destination.data;
    }
  };
  struct Counts {
    uint64_t ready = 0;
    uint64_t recompute = 0;
    uint64_t held = 0;
    uint64_t lent = 0;    // ready in a place of the lane's
    uint64_t cached = 0;  // of those: allowed to be of any time
  };

  // `progress` drives the lane. All but the functions outlives it.
  JudgedFetches(sim::World& world, Client& client, Truth& truth, Findings& findings,
                uint64_t page_bytes, std::function<void()> progress)
      : world_(world),
        truth_(truth),
        findings_(findings),
        page_bytes_(page_bytes),
        progress_(std::move(progress)),
        frames_(kFrames, page_bytes,
                [&findings](size_t frame) {
                  findings.add(FindingKind::kLateLandings,
                               fmt::format("a late landing in frame {}", frame));
                }),
        region_(client.register_memory({frames_.memory().data(), frames_.memory().size()}).value()),
        awaited_(kFrames) {}

  // Told of every verdict, before it is judged.
  std::function<void(const Running& running, size_t page)> on_verdict = [](auto&, auto) {};

  PageFrames& frames() { return frames_; }
  Slice slice(size_t frame, uint64_t bytes) const {
    return region_.slice(frames_.offset(frame), bytes);
  }
  bool owns(const std::byte* destination) const { return frames_.owns(destination); }
  // Whether this is a destination whose page has no verdict yet.
  bool awaits(const std::byte* destination) const {
    return owns(destination) && awaited_[frames_.index_of(destination)];
  }

  // The engine's thread stands still until resume(): no verdict is asked of it meanwhile.
  void pause() { paused_ = true; }
  void resume() {
    paused_ = false;
    resumed_ns_ = world_.now_ns();
  }
  bool paused() const { return paused_; }

  // `begin` makes the handle of a Running whose requests stand.
  template <typename Begin>
  void start(const std::vector<uint64_t>& key_numbers, uint64_t in_ns, bool newest_known,
             bool allow_cached, const Begin& begin) {
    Running& running = running_.emplace_back();
    running.id = ++last_id_;
    running.sent_ns = world_.now_ns();
    running.deadline_ns = running.sent_ns + in_ns;
    running.allow_cached = allow_cached;
    for (const uint64_t number : key_numbers) {
      Page page = {number, 0, truth_.bound(sim_key(number))};
      if (!frames_.take(page.frame)) break;
      running.requests.push_back({sim_key(number), newest_known ? page.bound.at_least : 0,
                                  slice(page.frame, length_of(number, page_bytes_))});
      running.pages.push_back(page);
      awaited_[page.frame] = true;
    }
    running.verdicts.resize(running.requests.size());
    // So that this engine's thread runs at the deadline, whatever the others wait for.
    world_.after(in_ns, [this, id = running.id, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) at_deadline(id);
    });
    running.fetch = begin(running);
    if (in_ns == 0 && !running.fetch.done()) {
      findings_.add(FindingKind::kMissedDeadlines, "no verdict though there was no time at all");
    }
    look(running);
  }

  std::list<Running>& running() { return running_; }
  bool idle() const { return running_.empty(); }
  // One whose verdicts nobody asks for any more, at its deadline neither.
  Running take(typename std::list<Running>::iterator which) {
    Running taken = std::move(*which);
    running_.erase(which);
    return taken;
  }
  // The frames of one that was taken, and has gone.
  void give_back(const Running& gone) {
    for (const Page& page : gone.pages) {
      if (page.returned) continue;
      awaited_[page.frame] = false;
      frames_.give_back(page.frame);
    }
  }

  void look() {
    for (Running& running : running_) look(running);
  }
  void look(Running& running) {
    for (size_t i = 0; i < running.pages.size(); ++i) {
      Page& page = running.pages[i];
      const PageVerdict& verdict = running.verdicts[i];
      if (verdict.verdict == Verdict::kPending || page.returned) continue;
      if (!page.judged) {
        page.judged = true;
        awaited_[page.frame] = false;
        judge(running, i);
      }
      if (verdict.place == Place::kReleased) {
        page.returned = true;
        frames_.give_back(page.frame);
      }
    }
  }
  // Judges once more what is lent: it stays as it is as long as there is the fetch.
  void judge_lent(const Running& running) {
    for (size_t page = 0; page < running.pages.size(); ++page) {
      const bool is_lent = !running.is_in_frame(page);
      if (running.verdicts[page].verdict == Verdict::kReady && is_lent) judge_bytes(running, page);
    }
  }
  void end_released() {
    std::erase_if(running_, [this](const Running& running) {
      if (!running.fetch.released()) return false;
      if (!std::ranges::all_of(running.pages, &Page::returned)) {
        findings_.add(FindingKind::kUnfinished, "a fetch is released and a page of it is not");
      }
      judge_lent(running);
      return true;
    });
  }

  // Lets go of all of them, which waits for what is held: no deadline is looked at meanwhile.
  void end() {
    alive_.reset();
    running_.clear();
  }

  const Counts& counts() const { return counts_; }

 private:
  static constexpr size_t kFrames = 256;

  void at_deadline(uint64_t id) {
    if (paused_) return;
    const auto found = std::ranges::find(running_, id, &Running::id);
    if (found == running_.end()) return;
    progress_();
    if (!found->fetch.done()) {
      findings_.add(FindingKind::kMissedDeadlines, "no verdict at the deadline");
    }
    look(*found);
  }

  void judge(const Running& running, size_t page) {
    const PageVerdict& verdict = running.verdicts[page];
    on_verdict(running, page);
    if (world_.now_ns() > std::max(running.deadline_ns, resumed_ns_)) {
      findings_.add(FindingKind::kMissedDeadlines,
                    fmt::format("a verdict {} ns late", world_.now_ns() - running.deadline_ns));
    }
    counts_.held += verdict.place == Place::kHeld;
    if (verdict.verdict != Verdict::kReady) {
      ++counts_.recompute;
      return;
    }
    ++counts_.ready;
    const bool is_lent = !running.is_in_frame(page);
    counts_.lent += is_lent;
    counts_.cached += is_lent && running.allow_cached;
    if (!is_lent && verdict.place != Place::kReleased) {
      findings_.add(FindingKind::kLateLandings, "a page that is ready is still held");
    }
    if (verdict.version < running.requests[page].min_version) {
      findings_.add(FindingKind::kWentBack,
                    fmt::format("key {}: version {:x} is less than was asked for",
                                running.pages[page].key_number, verdict.version));
    }
    judge_bytes(running, page);
  }

  void judge_bytes(const Running& running, size_t page) {
    const auto& [key_number, frame, bound, judged, returned] = running.pages[page];
    const bool is_cached = running.allow_cached && !running.is_in_frame(page);
    const PageVerdict& verdict = running.verdicts[page];
    if (auto found =
            truth_.judge(sim_key(key_number), is_cached ? Truth::Bound() : bound, verdict.version,
                         {verdict.landed, running.requests[page].destination.bytes})) {
      findings_.add(found->kind, fmt::format("key {}: {}", key_number, found->sentence));
    }
  }

  sim::World& world_;
  Truth& truth_;
  Findings& findings_;
  const uint64_t page_bytes_;
  std::function<void()> progress_;
  PageFrames frames_;
  Region region_;
  std::vector<bool> awaited_;  // frames whose page has no verdict yet
  std::list<Running> running_;
  uint64_t last_id_ = 0;
  bool paused_ = false;
  uint64_t resumed_ns_ = 0;
  Counts counts_;
  // Last: time goes on while the fetches end, and no deadline may look at them any more.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace farpage
