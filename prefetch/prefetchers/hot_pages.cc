#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "prefetch/importance/hot_spots.h"
#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class HotPages final : public Prefetcher {
 public:
  static constexpr uint64_t kEvery = 16;  // queries, as all pages are looked at each time
  // The first look at which there is something to say.
  static constexpr uint64_t kFirst = round_up(HotSpots::kQueries, kEvery);

  HotPages(double share, double overlap) : spots_(share), least_overlap_(overlap) {}

  void on_access(const Access& access) override {
    if (access.step != step_) end_step();
    step_ = access.step;
    spots_.add(access.page, access.mass);
  }
  void on_forget(PageNumber page) override {
    spots_.on_forget(page);
    std::erase(hot_, page);
  }
  size_t candidates(std::span<PageNumber> pages) override {
    const size_t named = std::min(hot_.size(), pages.size());
    std::copy_n(hot_.begin(), named, pages.begin());
    return named;
  }

 private:
  void end_step() {
    spots_.end_query();
    if (spots_.queries() % kEvery != 0) return;
    hot_.clear();
    if (spots_.overlap() >= least_overlap_) hot_ = spots_.hot();
  }

  HotSpots spots_;
  const double least_overlap_;
  std::vector<PageNumber> hot_;
  uint64_t step_ = 0;
};

}  // namespace

PrefetcherInfo hot_pages() {
  return {.name = "hot_spots",
          .what = fmt::format(
              "what all steps so far paid most attention to, after {} of them and while single "
              "steps agree with it",
              HotPages::kFirst),
          .parameters = {{"share", "of the pages that are hot", 0.1, 0, 1},
                         {"overlap", "how far steps have to agree (Jaccard)", 0.6, 0, 1}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<HotPages>(values[0], values[1]);
          },
          .needs = {Signal::kMass}};
}

}  // namespace farpage::prefetch
