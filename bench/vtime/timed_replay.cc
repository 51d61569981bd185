#include "bench/vtime/timed_replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/units.h"
#include "bench/vtime/link.h"

namespace farpage::vtime {
namespace {

using paging::AccessTrace;
using prefetch::Access;
using prefetch::PageNumber;

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

class Replay {
 public:
  Replay(const AccessTrace& trace, uint64_t budget_pages, const TimedOptions& options,
         prefetch::Policy& policy, prefetch::Prefetcher& prefetcher)
      : budget_pages_(budget_pages),
        compute_ns_(options.compute_ns),
        policy_(policy),
        prefetcher_(prefetcher),
        tiers_(options.tiers),
        pages_(trace.pages),
        candidates_(options.prefetch_pages) {
    for (const TierOptions& tier : options.tiers) {
      const auto transfer_ns = options.page_bytes * kSecond / tier.bytes_per_s;
      links_.emplace_back(tier.latency_ns, std::max<uint64_t>(1, transfer_ns));
    }
  }

  void step(std::span<const Access> accesses) {
    step_ = accesses.front().step;
    begin_prefetches();
    land_until(now_ns_);
    uint64_t ready_ns = now_ns_;
    for (const Access& access : accesses) ready_ns = std::max(ready_ns, demand(access));
    ask_prefetcher();
    const uint64_t stall_ns = ready_ns - now_ns_;
    result_.stall_ns += stall_ns;
    result_.stalled_steps += stall_ns > 0 ? 1 : 0;
    stalls_.add(static_cast<double>(stall_ns));
    ++result_.steps;
    now_ns_ = ready_ns + compute_ns_;
  }

  TimedResult end() {
    result_.end_ns = now_ns_;
    result_.stall_p50_ns = quantile(0.50);
    result_.stall_p99_ns = quantile(0.99);
    result_.written_pages = tiers_.written_pages();
    for (const Link& link : links_) result_.waited_ns += link.waited_ns();
    return result_;
  }

 private:
  struct Page {
    bool is_made = false;
    bool is_near = false;
    bool is_prefetched = false;  // near or under way, and not used since
    uint64_t issued_step = 0;    // of that prefetch
    uint64_t arrives_ns = 0;     // of one that is under way; 0: none is
  };

  void begin_prefetches() {
    for (Link& link : links_) {
      for (const Link::Arrival& begun : link.begin_until(now_ns_)) {
        Page& page = pages_[begun.page];
        page.is_prefetched = true;
        page.issued_step = begun.issued_step;
        page.arrives_ns = begun.at_ns;
        under_way_.push_back(begun);
        ++result_.prefetches;
        ++result_.fetched_pages;
      }
    }
  }

  void land_until(uint64_t now_ns) {
    std::ranges::stable_sort(under_way_, {}, &Link::Arrival::at_ns);
    const auto later = std::ranges::find_if(
        under_way_, [&](const Link::Arrival& each) { return each.at_ns > now_ns; });
    for (auto each = under_way_.begin(); each != later; ++each) {
      Page& page = pages_[each->page];
      // One that was waited for has come already, and may even have gone again.
      if (page.arrives_ns != each->at_ns) continue;
      page.arrives_ns = 0;
      if (budget_pages_ > 0) insert(each->page);
    }
    under_way_.erase(under_way_.begin(), later);
  }

  // When it is there.
  uint64_t demand(const Access& access) {
    policy_.on_access(access);
    prefetcher_.on_access(access);
    Page& page = pages_[access.page];
    ++result_.paging.accesses;
    if (!page.is_made) ++result_.paging.first_accesses;
    if (page.is_near) {
      ++result_.paging.hits;
      count_use(page, true);
      return now_ns_;
    }
    uint64_t there_ns = now_ns_;
    if (page.arrives_ns > 0) {
      there_ns = page.arrives_ns;
      page.arrives_ns = 0;
      count_use(page, false);
    } else if (page.is_made) {
      there_ns = fetch(access.page);
    }
    page.is_made = true;
    if (budget_pages_ > 0) {
      insert(access.page);
    } else {
      tiers_.keep(access.page);
    }
    return there_ns;
  }

  uint64_t fetch(PageNumber page) {
    const size_t tier = *tiers_.nearest(page);
    tiers_.use(tier, page);
    links_[tier].give_up(page);
    ++result_.demand_fetches;
    ++result_.fetched_pages;
    return links_[tier].demand(now_ns_);
  }

  void count_use(Page& page, bool was_there) {
    if (!page.is_prefetched) return;
    page.is_prefetched = false;
    if (step_ > page.issued_step + kUsefulSteps) return;
    ++result_.useful;
    if (was_there) ++result_.timely;
  }

  void insert(PageNumber page) {
    if (near_pages_ == budget_pages_) {
      const PageNumber victim = policy_.victim(step_);
      pages_[victim].is_near = false;
      pages_[victim].is_prefetched = false;
      policy_.on_evict(victim, step_);
      tiers_.keep(victim);
      ++result_.paging.evictions;
      --near_pages_;
    }
    pages_[page].is_near = true;
    policy_.on_insert(page, step_);
    ++near_pages_;
  }

  void ask_prefetcher() {
    for (Link& link : links_) link.give_up_all();
    const size_t named = prefetcher_.candidates(candidates_);
    for (const PageNumber number : std::span(candidates_).first(named)) {
      if (number >= pages_.size()) continue;
      const Page& page = pages_[number];
      if (!page.is_made || page.is_near || page.arrives_ns > 0) continue;
      const size_t tier = *tiers_.nearest(number);
      tiers_.use(tier, number);
      links_[tier].prefetch(number, step_, now_ns_);
    }
  }

  double quantile(double q) const {
    // The histogram begins at 1 ns.
    return stalls_.quantile(q) <= 1.02 ? 0 : stalls_.quantile(q);
  }

  const uint64_t budget_pages_;
  const uint64_t compute_ns_;
  prefetch::Policy& policy_;
  prefetch::Prefetcher& prefetcher_;
  std::vector<Link> links_;  // a tier each
  LowerTiers tiers_;
  std::vector<Page> pages_;
  std::vector<PageNumber> candidates_;
  std::vector<Link::Arrival> under_way_;
  uint64_t near_pages_ = 0;
  uint64_t step_ = 0;
  uint64_t now_ns_ = 0;
  TimedResult result_;
  Histogram stalls_;
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
  return replay.end();
}

}  // namespace farpage::vtime
