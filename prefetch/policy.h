#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "prefetch/access.h"

namespace farpage::prefetch {

// Decides what goes when the nearest memory is full. It hears of every access and of what comes
// and goes, and keeps what it needs of it. On one thread.
class Policy {
 public:
  virtual ~Policy() = default;

  // Before the caller has looked whether the page is resident.
  virtual void on_access(const Access& access) = 0;
  // The page, which was accessed at some time, is resident from now on, or no more. `step`: of the
  // access that brought this about.
  virtual void on_insert(PageNumber page, uint64_t step) = 0;
  virtual void on_evict(PageNumber page, uint64_t step) = 0;
  // Another page has this number from now on, which is not resident: the policy knows nothing of
  // it. A node says so (RankedPages), which asks no policy that needs signals or sees the future.
  virtual void on_forget(PageNumber) {}

  // Which resident page is to go first; there is one that is not set aside.
  virtual PageNumber victim(uint64_t step) = 0;
  // Excludes the last victim() from further victim() calls until put_back(), which ends all
  // exclusions. The page stays resident and does not change meanwhile; only on_evict() of other
  // pages is called in between.
  virtual void set_aside(PageNumber page) = 0;
  virtual void put_back() = 0;
};

// How good a prefetcher's probabilities were, each told before it was known what came.
struct ForesightScore {
  uint64_t samples = 0;
  uint64_t dropped = 0;          // of which nothing was learned: too many waited
  double base_rate = 0;          // the share that came: the area of a guess
  double pr_auc = 0;             // the area under precision against recall
  double calibration_error = 0;  // by how much they were off, on average
};

// Names the pages that it expects to be demanded next, resident or not. On one thread.
class Prefetcher {
 public:
  virtual ~Prefetcher() = default;

  virtual void on_access(const Access& access) = 0;
  // The page is not there when it is demanded, after its access, and has to be waited for.
  virtual void on_miss(PageNumber) {}
  // The page is resident from now on, or no more, for whatever reason.
  virtual void on_insert(PageNumber) {}
  virtual void on_evict(PageNumber) {}
  // The engine says that this page is a milestone, which may be one that was never heard of.
  virtual void on_milestone(PageNumber) {}
  // Another page has this number from now on: what is known of it is of the one before.
  virtual void on_forget(PageNumber) {}
  // Writes the likeliest first, each once, and how many.
  virtual size_t candidates(std::span<PageNumber> pages) = 0;
  // Of predictors that estimate probabilities.
  virtual std::optional<ForesightScore> score() const { return std::nullopt; }
};

// The future accesses: only a policy that declares it (KindOf::sees_future) may ask for them.
class Future {
 public:
  virtual ~Future() = default;

  static constexpr uint64_t kNever = UINT64_MAX;
  // The number of the next access to the page that this access demands.
  virtual uint64_t next(uint64_t access_number) const = 0;
  // The page that this access demands, of which there are so many.
  virtual PageNumber page(uint64_t access_number) const = 0;
  virtual uint64_t accesses() const = 0;
  // The number of the first access of each step, in order.
  virtual std::span<const uint64_t> step_begins() const = 0;
};

}  // namespace farpage::prefetch
