#include <algorithm>
#include <deque>
#include <optional>

#include "prefetch/prefetchers/prefetchers.h"

namespace farpage::prefetch {
namespace {

class Majority final : public Prefetcher {
 public:
  explicit Majority(double window) : window_(static_cast<size_t>(window)) {}

  void on_access(const Access& access) override {
    if (last_) strides_.push_front(int64_t{access.page} - int64_t{*last_});
    if (strides_.size() > window_) strides_.pop_back();
    last_ = access.page;
  }
  void on_forget(PageNumber page) override {
    if (last_ == page) last_.reset();
  }
  size_t candidates(std::span<PageNumber> pages) override {
    const int64_t stride = trend();
    if (stride == 0 || !last_) return 0;
    size_t named = 0;
    for (int64_t page = int64_t{*last_} + stride; named < pages.size(); page += stride) {
      if (page < 0 || page > UINT32_MAX) break;
      pages[named++] = static_cast<PageNumber>(page);
    }
    return named;
  }

 private:
  static constexpr size_t kFirstWindows = 4;  // the first is so small a part of the last

  // The stride of more than half of the newest ones, looked for among ever more of them; 0: none.
  int64_t trend() const {
    for (size_t size = std::max<size_t>(1, window_ / kFirstWindows);; size *= 2) {
      size = std::min(size, strides_.size());
      const auto end = strides_.begin() + static_cast<ptrdiff_t>(size);
      const int64_t candidate = voted(end);
      const auto votes = std::count(strides_.begin(), end, candidate);
      if (static_cast<size_t>(votes) > size / 2) return candidate;
      if (size == strides_.size()) return 0;
    }
  }
  // Boyer and Moore's vote.
  int64_t voted(const std::deque<int64_t>::const_iterator& end) const {
    int64_t candidate = 0;
    size_t lead = 0;
    for (auto stride = strides_.begin(); stride != end; ++stride) {
      if (lead == 0) candidate = *stride;
      lead = *stride == candidate ? lead + 1 : lead - 1;
    }
    return candidate;
  }

  const size_t window_;
  std::deque<int64_t> strides_;  // between pages' numbers, the newest first
  std::optional<PageNumber> last_;
};

}  // namespace

// Leap's trend detection, over the numbers of pages.
PrefetcherInfo majority() {
  return {.name = "majority",
          .what =
              "goes on by the stride that most of the last accesses had, seen in the smallest "
              "window that has such a majority",
          .parameters = {{"window", "strides in the largest", 32, 4, 1e6}},
          .make = [](const Setting&, Values values) -> std::unique_ptr<Prefetcher> {
            return std::make_unique<Majority>(values[0]);
          }};
}

}  // namespace farpage::prefetch
