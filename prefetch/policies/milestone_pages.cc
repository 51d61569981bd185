#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "prefetch/milestones/feature.h"
#include "prefetch/milestones/ftrl.h"
#include "prefetch/milestones/page_record.h"
#include "prefetch/milestones/pending_samples.h"
#include "prefetch/milestones/segmenter.h"
#include "prefetch/page_heap.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

using Features = std::array<uint32_t, 9>;

// `age`: steps since it was accessed.
Features features_of(const PageRecord& page, uint64_t age, const Segmenter& segmenter) {
  const uint32_t old = magnitude(age);
  const uint32_t visits = magnitude(page.visits);
  return {feature(1, old),
          feature(2, old, visits),
          feature(3, old, magnitude(page.last_gap)),
          feature(4, old, magnitude(page.longest_gap), visits),
          feature(5, old, mass_magnitude(page.mass)),
          feature(6, old, parts(page.entropy, 4), parts(page.margin, 2)),
          feature(7, old, page.head % kMostOfFeature),
          feature(8, old, magnitude(page.block)),
          feature(9, static_cast<uint32_t>(page.phase), static_cast<uint32_t>(segmenter.phase()),
                  magnitude(segmenter.steps_since_begin()))};
}

// A page is worth how likely it is to be accessed within so many steps, reckoned anew each time
// that it is, each time that its age has doubled since, and as it comes without being accessed.
class Milestone final : public Policy {
 public:
  static constexpr uint64_t own_bytes() {
    return Ftrl::bytes_of(kBits) + Pending::bytes_of(kPending);
  }

  Milestone(const Setting& setting, Values values)
      : within_(static_cast<uint64_t>(values[0])),
        records_(setting.layout),
        classifier_(kBits, {}),
        pending_(kPending) {}

  void on_access(const Access& access) override {
    if (!accesses_.empty() && accesses_.front().step != access.step) end_step();
    accesses_.push_back(access);
    if (is_of_this_step(access.page)) return;
    accessed_in_.at(access.page) = step_ + 1;
    pages_.push_back(access.page);
    if (resident_.contains(access.page)) resident_.change(access.page, kInThisStep);
  }
  void on_insert(PageNumber page, uint64_t) override {
    resident_.push(page,
                   is_of_this_step(page) ? kInThisStep : classifier_.probability(places_of(page)));
  }
  void on_evict(PageNumber page, uint64_t) override { resident_.remove(page); }
  // Its scores to compute anew are of another step than this number's last from now on.
  void on_forget(PageNumber page) override {
    std::erase_if(accesses_, [page](const Access& access) { return access.page == page; });
    std::erase(pages_, page);
    accessed_in_.at(page) = 0;
    segmenter_.on_forget(page);
    records_.on_forget(page);
    pending_.on_forget(page);
  }
  PageNumber victim(uint64_t) override { return resident_.top(); }
  void set_aside(PageNumber page) override { resident_.set_aside(page); }
  void put_back() override { resident_.put_back(); }

 private:
  using Places = std::array<uint16_t, std::tuple_size_v<Features>>;
  using Pending = PendingSamples<std::tuple_size_v<Features>>;
  static constexpr unsigned kBits = 16;
  static constexpr size_t kPending = 1 << 16;
  static constexpr unsigned kSampledBits = 3;  // one of 2^so many is learned from
  static constexpr size_t kDoublings = 14;
  static constexpr double kInThisStep = 1;  // what a page of it is worth
  struct Ageing {
    PageNumber page;
    uint64_t accessed_in;
    uint64_t due_step;
  };

  bool is_of_this_step(PageNumber page) const { return accessed_in_[page] == step_ + 1; }

  void end_step() {
    ++step_;
    segmenter_.on_step(accesses_);
    for (const Access& access : accesses_) {
      pending_.on_access(access.page);
      records_.on_access(access, step_, segmenter_);
    }
    pending_.on_step(step_, [&](const auto& sample, bool has_come) {
      classifier_.learn(sample.places, has_come);
    });
    for (const PageNumber page : pages_) reckon(page, 0);
    accesses_.clear();
    pages_.clear();
    for (size_t i = 0; i < kDoublings; ++i) {
      for (; !ageing_[i].empty() && ageing_[i].front().due_step == step_; ageing_[i].pop_front()) {
        const Ageing page = ageing_[i].front();
        if (accessed_in_[page.page] == page.accessed_in) reckon(page.page, i + 1);
      }
    }
  }

  void reckon(PageNumber page, size_t doublings) {
    // Spread evenly, whatever the order in which pages come.
    const bool is_sampled = (++reckoned_ * 0x9E3779B97F4A7C15U) >> (64 - kSampledBits) == 0;
    const bool is_resident = resident_.contains(page);
    if (is_resident || is_sampled) {
      const Places places = places_of(page);
      const float probability = classifier_.probability(places);
      if (is_resident) resident_.change(page, probability);
      if (is_sampled) pending_.add({page, probability, step_ + within_, places});
    }
    if (doublings == kDoublings) return;
    const uint64_t until = uint64_t{1} << doublings;  // of its age
    ageing_[doublings].push_back({page, accessed_in_[page], accessed_in_[page] + until});
  }

  Places places_of(PageNumber page) const {
    const uint64_t age = step_ - accessed_in_[page];
    return classifier_.places(features_of(records_[page], age, segmenter_));
  }

  const uint64_t within_;  // steps
  Segmenter segmenter_;
  PageRecords records_;
  Ftrl classifier_;
  Pending pending_;
  PageHeap resident_;
  PerPage<uint64_t> accessed_in_;  // the last step, this one or one that is over
  // Scores to compute anew, each in the order of its time: pages that are a step old, two, four, …
  std::array<std::deque<Ageing>, kDoublings> ageing_;
  std::vector<Access> accesses_;   // of the step that is heard of
  std::vector<PageNumber> pages_;  // likewise, each once
  uint64_t step_ = 0;
  uint64_t reckoned_ = 0;
};

}  // namespace

PolicyInfo milestone_pages() {
  return {.name = "milestone",
          .what =
              "the page goes that is least likely to be accessed within `within` steps, as a "
              "classifier has learned of its gaps, its age, and what was written when it was",
          .parameters = {{"within", "steps", 100, 1, 1e6}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Policy> {
            return std::make_unique<Milestone>(setting, values);
          },
          .own_bytes = [](Values) { return Milestone::own_bytes(); }};
}

}  // namespace farpage::prefetch
