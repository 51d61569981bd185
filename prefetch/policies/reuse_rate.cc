#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "prefetch/page_list.h"
#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

// Gaps between accesses to a page, counted in accesses to any: two bins an octave.
constexpr size_t kBins = 80;

size_t bin_of(uint64_t gap) {
  const uint64_t from_one = std::min<uint64_t>(gap, UINT32_MAX - 1) + 1;
  const auto octave = static_cast<size_t>(std::bit_width(from_one)) - 1;
  const bool is_upper_half = (from_one * from_one) >> (2 * octave) >= 2;
  return 2 * octave + (is_upper_half ? 1 : 0);
}

double width_of(size_t bin) {
  return std::exp2(static_cast<double>(bin + 1) / 2) - std::exp2(static_cast<double>(bin) / 2);
}

// After how many accesses pages of a kind came back, those that had gone from memory among them.
struct Gaps {
  double waits = 0;  // that have begun
  std::array<double, kBins> ended = {};

  void keep(double share) {
    waits *= share;
    for (double& each : ended) each *= share;
  }
};

class ReuseRate final : public Policy {
 public:
  static uint64_t own_bytes(double kinds) { return static_cast<uint64_t>(kinds) * sizeof(Kind); }

  ReuseRate(double kinds, double half_life)
      : half_life_(static_cast<uint64_t>(half_life)),
        kinds_(static_cast<size_t>(kinds)),
        forget_at_(half_life_) {}

  void on_access(const Access& access) override {
    if (access.number >= forget_at_) forget(access.number);
    Page& page = pages_.at(access.page);
    if (page.accesses > 0) {
      const size_t bin = bin_of(access.number - page.accessed_at);
      kind_of(page).gaps.ended[bin] += 1;
      all_.ended[bin] += 1;
    }
    if (page.is_resident) kind_of(page).resident.remove(access.page);
    ++page.accesses;
    page.accessed_at = now_ = access.number;
    kind_of(page).gaps.waits += 1;
    all_.waits += 1;
    if (page.is_resident) kind_of(page).resident.push_back(access.page);
  }
  void on_insert(PageNumber number, uint64_t) override {
    Page& page = pages_.at(number);
    page.is_resident = true;
    kind_of(page).resident.push_back(number);
  }
  void on_evict(PageNumber number, uint64_t) override {
    Page& page = pages_.at(number);
    page.is_resident = false;
    kind_of(page).resident.remove(number);
  }
  void on_forget(PageNumber number) override { pages_.at(number) = {}; }

  // Where pages come back in loops the newest has the longest to wait, else the oldest.
  PageNumber victim(uint64_t) override {
    PageNumber chosen = 0;
    double least = std::numeric_limits<double>::infinity();
    for (Kind& kind : kinds_) {
      if (kind.resident.size() == 0) continue;
      for (const PageNumber page : {kind.resident.front(), kind.resident.back()}) {
        const double rate = rate_of(kind, bin_of(now_ - pages_[page].accessed_at));
        if (rate >= least) continue;
        least = rate;
        chosen = page;
      }
    }
    return chosen;
  }
  void set_aside(PageNumber page) override { kind_of(pages_[page]).resident.set_aside(page); }
  void put_back() override {
    for (Kind& kind : kinds_) kind.resident.put_back();
  }

 private:
  struct Page {
    uint64_t accessed_at = 0;  // the number of the access
    uint32_t accesses = 0;
    bool is_resident = false;
  };
  struct Rate {
    double reuses_an_access = 0;
    uint64_t good_until = 0;  // the number of an access
  };
  // Of pages accessed equally often, or as often as the last kind or oftener.
  struct Kind {
    Gaps gaps;
    PageList resident;                   // by use
    std::array<Rate, kBins> rates = {};  // by age
  };
  static constexpr double kPrior = 20;  // waits as those of all kinds, so that no kind is unknown
  static constexpr uint64_t kRatesLast = 2'048;  // accesses

  Kind& kind_of(const Page& page) {
    return kinds_[std::min<size_t>(page.accesses, kinds_.size()) - 1];
  }

  // Of waits that have lasted so long: the most reuses an access of waiting that are to be had by
  // giving up at some time (Gittins' index).
  double rate_of(Kind& kind, size_t age_bin) {
    Rate& rate = kind.rates[age_bin];
    if (now_ < rate.good_until) return rate.reuses_an_access;
    double waiting = kind.gaps.waits + kPrior;
    double reuses = 0;
    double time = 0;
    double best = 0;
    for (size_t bin = 0; bin < kBins; ++bin) {
      const double ended = kind.gaps.ended[bin] + kPrior * all_.ended[bin] / all_.waits;
      if (bin >= age_bin) {
        reuses += ended;
        time += waiting * width_of(bin);
        if (time > 0) best = std::max(best, reuses / time);
      }
      waiting = std::max(0.0, waiting - ended);
    }
    rate = {best, now_ + kRatesLast};
    return best;
  }

  // As often as that was due: who hears of some accesses alone may not hear of any for long.
  void forget(uint64_t now) {
    const uint64_t halvings = (now - forget_at_) / half_life_ + 1;
    const double share = std::exp2(-static_cast<double>(halvings));
    all_.keep(share);
    for (Kind& kind : kinds_) kind.gaps.keep(share);
    forget_at_ += halvings * half_life_;
  }

  const uint64_t half_life_;  // accesses
  std::vector<Kind> kinds_;
  Gaps all_;
  PerPage<Page> pages_;
  uint64_t now_ = 0;
  uint64_t forget_at_;  // the number of an access
};

}  // namespace

// Ours, for pages of which nothing is known but their accesses.
PolicyInfo reuse_rate() {
  return {.name = "reuse_rate",
          .what =
              "the page goes that is least likely to be accessed again soon at its age, as all "
              "pages accessed equally often lately were, whether they stayed or had gone",
          .parameters = {{"kinds", "accesses after which more tell nothing", 3, 1, 1000},
                         {"half_life", "in accesses, of what is known", 100000, 1, 1e12}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Policy> {
            return std::make_unique<ReuseRate>(values[0], values[1]);
          },
          .own_bytes = [](Values values) { return ReuseRate::own_bytes(values[0]); }};
}

}  // namespace farpage::prefetch
