#include "bench/vtime/timed_replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/units.h"
#include "bench/vtime/link.h"
#include "bench/vtime/near_memory.h"

namespace farpage::vtime {
namespace {

using paging::AccessTrace;
using prefetch::Access;
using prefetch::PageNumber;

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

uint64_t transfer_ns(uint64_t page_bytes, const TierOptions& tier) {
  const auto product = static_cast<unsigned __int128>(page_bytes) * kSecond;
  const auto ns = product / std::max<uint64_t>(1, tier.bytes_per_s);
  return static_cast<uint64_t>(std::clamp<unsigned __int128>(ns, 1, UINT64_MAX));
}

class Replay {
 public:
  Replay(const AccessTrace& trace, uint64_t budget_pages, const TimedOptions& options,
         prefetch::Policy& policy, prefetch::Prefetcher& prefetcher)
      : budget_pages_(budget_pages),
        prefetch_pages_(options.prefetch_pages),
        compute_ns_(options.compute_ns),
        policy_(policy),
        prefetcher_(prefetcher),
        near_(budget_pages, policy),
        tiers_(options.tiers),
        pages_(trace.pages),
        candidates_(options.prefetch_pages) {
    for (const TierOptions& tier : options.tiers) {
      links_.emplace_back(tier.latency_ns, transfer_ns(options.page_bytes, tier));
    }
  }

  void step(std::span<const Access> accesses) {
    step_ = accesses.front().step;
    ++result_.steps;
    uint64_t demanded = 0;
    for (const Access& access : accesses) {
      uint64_t& demanded_in = pages_[access.page].demanded_in;
      if (demanded_in != result_.steps) ++demanded;
      demanded_in = result_.steps;
    }
    if (demanded > budget_pages_) ++result_.overfull_steps;
    // These will be near, and may be named, but are not fetched ahead.
    candidates_.resize(prefetch_pages_ + demanded);
    near_.end_holds(result_.steps, step_);
    begin_prefetches();
    uint64_t ready_ns = now_ns_;
    for (const Access& access : accesses) ready_ns = std::max(ready_ns, demand(access));
    land();
    ask_prefetcher();
    const uint64_t stall_ns = ready_ns - now_ns_;
    result_.stall_ns += stall_ns;
    result_.stalled_steps += stall_ns > 0 ? 1 : 0;
    stalls_.add(static_cast<double>(stall_ns));
    longest_stall_ns_ = std::max(longest_stall_ns_, stall_ns);
    now_ns_ = std::min(ready_ns + compute_ns_, Link::kEndNs);
  }

  // Whether time has come to its end, and figures mean nothing.
  bool has_run_out() const { return now_ns_ >= Link::kEndNs; }

  TimedResult end() {
    result_.end_ns = now_ns_;
    result_.stall_p50_ns = quantile(0.50);
    result_.stall_p99_ns = quantile(0.99);
    result_.written_pages = tiers_.written_pages();
    result_.foresight = prefetcher_.score();
    for (const Link& link : links_) result_.waited_ns += link.waited_ns();
    return result_;
  }

 private:
  struct Page {
    bool is_made = false;
    bool is_prefetched = false;  // near or under way, and not used since
    uint64_t issued_in = 0;      // of the steps, counted from 1, that prefetch
    uint64_t arrives_ns = 0;     // of one that is under way; 0: none is
    uint64_t demanded_in = 0;    // likewise, the last one
    uint64_t named_in = 0;       // likewise, by the prefetcher
    size_t rank = 0;             // among what it named
  };

  void begin_prefetches() {
    for (Link& link : links_) {
      for (const Link::Arrival& begun : link.begin_until(now_ns_)) {
        Page& page = pages_[begun.page];
        page.is_prefetched = true;
        page.issued_in = begun.issued_in;
        page.arrives_ns = begun.at_ns;
        under_way_.push_back(begun);
        ++result_.prefetches;
        ++result_.fetched_pages;
      }
    }
  }

  // What has come and is not demanded now, else its demand finds it.
  void land() {
    std::ranges::stable_sort(under_way_, {}, &Link::Arrival::at_ns);
    const auto later = std::ranges::find_if(
        under_way_, [&](const Link::Arrival& each) { return each.at_ns > now_ns_; });
    for (auto each = under_way_.begin(); each != later; ++each) {
      Page& page = pages_[each->page];
      // One that was waited for has come already, and may even have gone again.
      if (page.arrives_ns != each->at_ns || is_demanded(page)) continue;
      page.arrives_ns = 0;
      if (make_room_for(page)) {
        near_.hold(each->page, each->issued_in + kUsefulSteps);
        prefetcher_.on_insert(each->page);
      } else {
        page.is_prefetched = false;
        near_.count_waste();
      }
    }
    under_way_.erase(under_way_.begin(), later);
    near_.end_evictions(step_);
  }

  // Whether there is room for what was fetched ahead.
  bool make_room_for(const Page& page) {
    if (!near_.is_full()) return true;
    const auto victim =
        near_.victim(step_, [&](PageNumber named) { return is_demanded(pages_[named]); });
    if (!victim || rank(pages_[*victim]) < rank(page)) return false;
    near_.evict(*victim, step_);
    leave(*victim);
    return true;
  }

  // When it is there.
  uint64_t demand(const Access& access) {
    policy_.on_access(access);
    prefetcher_.on_access(access);
    Page& page = pages_[access.page];
    ++result_.paging.accesses;
    if (!page.is_made) ++result_.paging.first_accesses;
    if (near_.contains(access.page)) {
      ++result_.paging.hits;
      count_use(page, true);
      near_.use(access.page, step_);
      return now_ns_;
    }
    uint64_t there_ns = now_ns_;
    if (page.arrives_ns > 0) {
      const bool was_there = page.arrives_ns <= now_ns_;
      if (was_there) ++result_.paging.hits;
      there_ns = std::max(now_ns_, page.arrives_ns);
      page.arrives_ns = 0;
      count_use(page, was_there);
    } else if (page.is_made) {
      there_ns = fetch(access.page);
    }
    page.is_made = true;
    if (const auto gone = near_.insert(access.page, step_)) leave(*gone);
    if (near_.contains(access.page)) {
      prefetcher_.on_insert(access.page);
    } else {
      tiers_.keep(access.page);
    }
    return there_ns;
  }

  uint64_t fetch(PageNumber page) {
    const size_t tier = *tiers_.nearest(page);
    tiers_.use(tier, page);
    ++result_.demand_fetches;
    ++result_.fetched_pages;
    return links_[tier].demand(now_ns_);
  }

  void count_use(Page& page, bool was_there) {
    if (!page.is_prefetched) return;
    page.is_prefetched = false;
    if (result_.steps > page.issued_in + kUsefulSteps) return;
    ++result_.useful;
    near_.count_use();
    if (was_there) ++result_.timely;
  }

  // It is near no more.
  void leave(PageNumber page) {
    pages_[page].is_prefetched = false;
    prefetcher_.on_evict(page);
    tiers_.keep(page);
    ++result_.paging.evictions;
  }

  bool is_demanded(const Page& page) const { return page.demanded_in == result_.steps; }
  // Where the prefetcher named it after the step before.
  size_t rank(const Page& page) const {
    return page.named_in + 1 == result_.steps ? page.rank : candidates_.size();
  }

  void ask_prefetcher() {
    for (Link& link : links_) link.give_up_all();
    const auto named = std::span(candidates_).first(prefetcher_.candidates(candidates_));
    for (size_t i = 0; i < named.size(); ++i) {
      if (named[i] >= pages_.size()) continue;
      pages_[named[i]].named_in = result_.steps;
      pages_[named[i]].rank = i;
    }
    const uint64_t room_ahead = near_.room_ahead();
    uint64_t room =
        std::min(prefetch_pages_, room_ahead - std::min<uint64_t>(room_ahead, under_way_.size()));
    for (const PageNumber number : named) {
      if (room == 0) return;
      if (number >= pages_.size()) continue;
      const Page& page = pages_[number];
      if (!page.is_made || near_.contains(number) || page.arrives_ns > 0) continue;
      const size_t tier = *tiers_.nearest(number);
      tiers_.use(tier, number);
      links_[tier].prefetch(number, result_.steps, now_ns_);
      --room;
    }
  }

  double quantile(double q) const {
    // The histogram begins at 1 ns, and ends at 1,000 s.
    const double stall_ns = stalls_.quantile(q);
    if (stall_ns <= 1.02) return 0;
    return stall_ns < kSecond * 1e3 ? stall_ns : static_cast<double>(longest_stall_ns_);
  }

  const uint64_t budget_pages_;
  const uint64_t prefetch_pages_;
  const uint64_t compute_ns_;
  prefetch::Policy& policy_;
  prefetch::Prefetcher& prefetcher_;
  std::vector<Link> links_;  // a tier each
  NearMemory near_;
  LowerTiers tiers_;
  std::vector<Page> pages_;
  std::vector<PageNumber> candidates_;
  std::vector<Link::Arrival> under_way_;
  uint64_t step_ = 0;
  uint64_t now_ns_ = 0;
  TimedResult result_;
  Histogram stalls_;
  uint64_t longest_stall_ns_ = 0;
};

}  // namespace

double TimedResult::accuracy() const {
  return ratio(useful, prefetches);
}
double TimedResult::coverage() const {
  return ratio(useful, useful + demand_fetches);
}
double TimedResult::timeliness() const {
  return ratio(timely, useful);
}
double TimedResult::steps_per_s() const {
  return ratio(steps, end_ns) * kSecond;
}

Result<void> TimedOptions::validate() const {
  if (page_bytes == 0 || page_bytes > kGiB) {
    return fail(Code::kInvalid, "a page has 1 byte to 1 GiB");
  }
  if (prefetch_pages > 1'000'000) {
    return fail(Code::kInvalid, "at most a million pages can be asked for after a step");
  }
  for (const TierOptions& tier : tiers) {
    if (tier.latency_ns <= Link::kMostNs && transfer_ns(page_bytes, tier) <= Link::kMostNs)
      continue;
    return fail(Code::kInvalid, "a tier is too slow: a page would be decades on its way");
  }
  return vtime::validate(tiers);
}

Result<TimedResult> replay(const AccessTrace& trace, uint64_t budget_pages,
                           const TimedOptions& options, prefetch::Policy& policy,
                           prefetch::Prefetcher& prefetcher) {
  Replay replay(trace, budget_pages, options, policy, prefetcher);
  std::vector<Access> step;
  auto read = for_each_access(trace, [&](const Access& access) {
    if (!step.empty() && step.front().step != access.step) {
      replay.step(step);
      step.clear();
    }
    step.push_back(access);
  });
  if (!read) return tl::unexpected(read.error());
  if (!step.empty()) replay.step(step);
  if (replay.has_run_out()) {
    return fail(Code::kInvalid,
                "the replay takes more than 146 years of virtual time: choose less --compute-us, "
                "less --page-bytes, or a faster --tier");
  }
  return replay.end();
}

}  // namespace farpage::vtime
