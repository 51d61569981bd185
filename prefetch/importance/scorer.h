#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "prefetch/access.h"
#include "prefetch/policy.h"

namespace farpage::prefetch {

// The worth of pages as a number, wherever they are: the lowest goes first. It keeps statistics,
// and no order.
class Scorer {
 public:
  virtual ~Scorer() = default;

  virtual void on_access(const Access& access) = 0;
  virtual void on_insert(PageNumber, uint64_t /*step*/) {}
  virtual void on_evict(PageNumber, uint64_t /*step*/) {}
  virtual void on_forget(PageNumber) {}  // as of a Policy
  virtual double score(PageNumber page, uint64_t step) const = 0;
};

// One whose scores change only with what happens to the page itself, or to those it names.
class SteadyScorer : public Scorer {
 public:
  // Pages beside the one accessed whose scores the last access has changed.
  virtual std::span<const PageNumber> also_changed() const { return {}; }
};

// One whose scores are before + last_access(page) / max(step, 1) + after, added up in this order:
// they all drift, by 1 at most, and of pages whose parts are equal that of the one accessed longest
// ago stays the lowest. Parts whose sums are equal may differ in a score's last bits.
class DriftingScorer : public Scorer {
 public:
  struct Parts {
    double before = 0;
    double after = 0;

    double sum() const { return before + after; }
  };

  virtual Parts parts(PageNumber page) const = 0;          // change as a SteadyScorer's scores do
  virtual int64_t last_access(PageNumber page) const = 0;  // its step; -1: there was none

  double score(PageNumber page, uint64_t step) const final {
    return score(parts(page), last_access(page), step);
  }
  static double score(const Parts& of, int64_t last_access, uint64_t step) {
    const auto now = static_cast<double>(std::max<uint64_t>(step, 1));
    return of.before + static_cast<double>(last_access) / now + of.after;
  }
};

// The policies that evict by them; of pages that are worth the same, the one that was inserted
// first. Of those whose parts are equal, and whose scores differ by less than a double can tell, it
// is the one that was accessed longest ago.
std::unique_ptr<Policy> evict_by(std::unique_ptr<SteadyScorer> scorer);
std::unique_ptr<Policy> evict_by(std::unique_ptr<DriftingScorer> scorer);

}  // namespace farpage::prefetch
