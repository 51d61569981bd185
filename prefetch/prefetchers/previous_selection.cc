#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "prefetch/page_generations.h"
#include "prefetch/per_page.h"
#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class PreviousSelection final : public Prefetcher {
 public:
  PreviousSelection(double steps, uint32_t heads_a_layer)
      : most_steps_(static_cast<size_t>(steps)), heads_a_layer_(heads_a_layer) {}

  void on_access(const Access& access) override {
    layer_ = access.head / heads_a_layer_;
    Layer& layer = layers_[layer_];
    if (layer.selections.empty() || access.step != layer.step) {
      layer.step = access.step;
      layer.selections.emplace_front();
      if (layer.selections.size() > most_steps_) layer.selections.pop_back();
    }
    layer.selections.front().push_back(generations_.now(access.page));
  }
  void on_forget(PageNumber page) override { generations_.on_forget(page); }
  // Of the layers that come next, and of this one last: the newest selection of each, and then the
  // ones before.
  size_t candidates(std::span<PageNumber> pages) override {
    ++asked_;
    named_pages_ = 0;
    for (size_t age = 0; age < most_steps_; ++age) {
      const auto next = layers_.upper_bound(layer_);
      for (auto each = next; each != layers_.end(); ++each) name(each->second, age, pages);
      for (auto each = layers_.begin(); each != next; ++each) name(each->second, age, pages);
      if (named_pages_ == pages.size()) break;
    }
    return named_pages_;
  }

 private:
  struct Layer {
    uint64_t step = 0;
    std::deque<std::vector<NumberedPage>> selections;  // the newest first
  };

  void name(const Layer& layer, size_t age, std::span<PageNumber> pages) {
    if (age >= layer.selections.size()) return;
    for (const NumberedPage& page : layer.selections[age]) {
      if (named_pages_ == pages.size()) return;
      if (!generations_.is_still(page) || named_.at(page.number) == asked_) continue;
      named_.at(page.number) = asked_;
      pages[named_pages_++] = page.number;
    }
  }

  const size_t most_steps_;
  const uint32_t heads_a_layer_;
  PageGenerations generations_;
  std::map<uint32_t, Layer> layers_;
  uint32_t layer_ = 0;  // of the last access
  uint64_t asked_ = 0;
  size_t named_pages_ = 0;
  PerPage<uint64_t> named_;  // when it was asked so often
};

}  // namespace

// FreeKV's speculation, and its correction: what a step selects takes the place of what was
// expected of it, and what was not expected is demanded.
PrefetcherInfo previous_selection() {
  return {
      .name = "previous_selection",
      .what = "what each layer selected in its last steps it selects again, the next layer first",
      .parameters = {{"steps", "how many of them, in each layer", 2, 1, 1000}},
      .make = [](const Setting& setting, Values values) -> std::unique_ptr<Prefetcher> {
        return std::make_unique<PreviousSelection>(values[0], setting.layout.heads);
      }};
}

}  // namespace farpage::prefetch
