#include "lab/analyse/measures/ranked_trace.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace farpage::analyse {
namespace {

using paging::AccessStream;
using prefetch::Access;
using prefetch::Signal;

// Turns a step's values into weights, head by head.
class Ranker {
 public:
  explicit Ranker(Signal signal) : signal_(signal) {}

  void rank(std::vector<Access>& step) {
    order_.resize(step.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::sort(order_, [&](size_t one, size_t other) {
      return std::pair(step[one].head, value(step[one])) <
             std::pair(step[other].head, value(step[other]));
    });
    for (auto begin = order_.begin(); begin != order_.end();) {
      const auto end = std::find_if(begin, order_.end(),
                                    [&](size_t i) { return step[i].head != step[*begin].head; });
      weigh(step, {begin, end});
      begin = end;
    }
  }

 private:
  float value(const Access& access) const {
    return signal_ == Signal::kScore ? access.score : access.mass;
  }

  // Of a head, the least first.
  void weigh(std::vector<Access>& step, std::span<const size_t> order) {
    const auto n = static_cast<double>(order.size());
    values_.clear();
    for (const size_t i : order) values_.push_back(value(step[i]));
    for (size_t begin = 0; begin < order.size();) {
      size_t end = begin + 1;
      while (end < order.size() && values_[end] == values_[begin]) ++end;
      const double mean_rank = static_cast<double>(begin + 1 + end) / 2;
      const auto weight = static_cast<float>(2 * mean_rank / (n * (n + 1)));
      for (size_t i = begin; i < end; ++i) step[order[i]].mass = weight;
      begin = end;
    }
  }

  const Signal signal_;
  std::vector<size_t> order_;
  std::vector<float> values_;
};

class RankedStream final : public AccessStream {
 public:
  RankedStream(std::unique_ptr<AccessStream> accesses, Signal signal)
      : accesses_(std::move(accesses)), ranker_(signal) {}

  Result<size_t> read(std::span<Access> accesses) override {
    if (next_ == step_.size()) {
      if (auto read = read_step(); !read) return tl::unexpected(read.error());
    }
    const size_t count = std::min(accesses.size(), step_.size() - next_);
    std::copy_n(step_.begin() + static_cast<ptrdiff_t>(next_), count, accesses.begin());
    next_ += count;
    return count;
  }

 private:
  // The next one, whole; nothing at the end.
  Result<void> read_step() {
    step_.clear();
    next_ = 0;
    while (true) {
      if (ahead_ == some_.size()) {
        some_.resize(1'024);
        const auto read = accesses_->read(some_);
        if (!read) return tl::unexpected(read.error());
        some_.resize(*read);
        ahead_ = 0;
        if (*read == 0) break;
      }
      if (!step_.empty() && some_[ahead_].step != step_.front().step) break;
      step_.push_back(some_[ahead_++]);
    }
    ranker_.rank(step_);
    return {};
  }

  const std::unique_ptr<AccessStream> accesses_;
  Ranker ranker_;
  std::vector<Access> some_;
  size_t ahead_ = 0;  // of these
  std::vector<Access> step_;
  size_t next_ = 0;  // of this
};

}  // namespace

paging::AccessTrace ranked_by(const paging::AccessTrace& trace, Signal signal) {
  paging::AccessTrace ranked = trace;
  ranked.open = [&trace, signal]() -> Result<std::unique_ptr<AccessStream>> {
    return trace.open().map([&](std::unique_ptr<AccessStream> accesses) {
      return std::unique_ptr<AccessStream>(
          std::make_unique<RankedStream>(std::move(accesses), signal));
    });
  };
  return ranked;
}

}  // namespace farpage::analyse
