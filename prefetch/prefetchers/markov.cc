#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "prefetch/page_generations.h"
#include "prefetch/per_page.h"
#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class Markov final : public Prefetcher {
 public:
  static constexpr size_t kSuccessors = 8;  // of a page, that are remembered

  explicit Markov(double least) : least_(least) {}

  void on_access(const Access& access) override {
    if (access.step != step_) end_step();
    step_ = access.step;
    if (demanded_in_.at(access.page) == steps_) return;
    demanded_in_.at(access.page) = steps_;
    demanded_.push_back(generations_.now(access.page));
  }
  void on_forget(PageNumber page) override {
    generations_.on_forget(page);
    demanded_in_.at(page) = 0;
    if (page < successors_.size()) successors_.at(page) = {};
  }

  // A page that follows several of them has the weight of each.
  size_t candidates(std::span<PageNumber> pages) override {
    ++asked_;
    likely_.clear();
    for (const NumberedPage& page : demanded_) {
      for (const Successor& successor : successors_[page.number]) {
        if (successor.weight >= least_ && generations_.is_still(successor.page)) {
          add_weight(successor);
        }
      }
    }
    std::ranges::stable_sort(likely_, std::greater(),
                             [&](PageNumber page) { return weights_[page].sum; });
    const size_t named = std::min(likely_.size(), pages.size());
    std::copy_n(likely_.begin(), named, pages.begin());
    return named;
  }

 private:
  // How often it followed, of late; those that did not this time weigh half.
  struct Successor {
    NumberedPage page = {};
    float weight = 0;
  };
  using Successors = std::array<Successor, kSuccessors>;
  struct Weight {
    double sum = 0;
    uint64_t asked = 0;
  };

  void end_step() {
    drop_forgotten(before_);
    drop_forgotten(demanded_);
    for (size_t i = 0; i < before_.size(); ++i) {
      learn(successors_.at(before_[i].number), i * demanded_.size() / before_.size());
    }
    before_.swap(demanded_);
    demanded_.clear();
    ++steps_;
  }
  void drop_forgotten(std::vector<NumberedPage>& pages) const {
    std::erase_if(pages, [&](const NumberedPage& page) { return !generations_.is_still(page); });
  }

  // A step may demand far more pages than are remembered of one. So each looks for new ones from
  // its own place in the step on, and together they know all of it.
  void learn(Successors& successors, size_t place) {
    for (Successor& each : successors) {
      if (!generations_.is_still(each.page)) each = {};
      const bool has_followed = each.weight > 0 && demanded_in_[each.page.number] == steps_;
      each.weight = has_followed ? each.weight + 1 : each.weight / 2;
      if (each.weight < 1) each.weight = 0;
    }
    for (size_t i = 0; i < std::min(kSuccessors, demanded_.size()); ++i) {
      const NumberedPage& page = demanded_[(place + i) % demanded_.size()];
      const auto is_it = [&](const Successor& each) {
        return each.weight > 0 && each.page.number == page.number;
      };
      if (std::ranges::any_of(successors, is_it)) continue;
      const auto free = std::ranges::find(successors, 0.0F, &Successor::weight);
      if (free == successors.end()) return;
      *free = {page, 1};
    }
  }

  void add_weight(const Successor& successor) {
    Weight& weight = weights_.at(successor.page.number);
    if (weight.asked != asked_) {
      weight = {0, asked_};
      likely_.push_back(successor.page.number);
    }
    weight.sum += successor.weight;
  }

  const double least_;
  uint64_t step_ = 0;
  uint64_t steps_ = 1;  // that have begun
  uint64_t asked_ = 0;
  PageGenerations generations_;
  std::vector<NumberedPage> demanded_;  // in this step, each once
  std::vector<NumberedPage> before_;    // in the step before
  PerPage<uint64_t> demanded_in_;       // of the steps, the last one
  PerPage<Successors> successors_;
  PerPage<Weight> weights_;
  std::vector<PageNumber> likely_;
};

}  // namespace

// Joseph and Grunwald's Markov prefetcher, with steps for misses.
PrefetcherInfo markov() {
  return {.name = "markov",
          .what = fmt::format(
              "what has followed each of the step's pages in the next step before, most often "
              "first; {} followers of a page are remembered",
              Markov::kSuccessors),
          .parameters = {{"least",
                          "how often it has to have followed; each time that it did not halves it",
                          2, 1, 1e9}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<Markov>(values[0]);
          }};
}

}  // namespace farpage::prefetch
