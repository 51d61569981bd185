#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/log.h"
#include "integrity/checker.h"
#include "tier/fetch/page_copier.h"

namespace farpage {

// A lane's payloads that have landed and are being checked, by the memory that they lie in: a
// checker for each place, made when a payload first lands there. And those that a copier takes from
// a node's pool. On one thread; allocates nothing after that.
class PayloadChecks {
 public:
  // `most`: at one time.
  PayloadChecks(CheckerFactory& factory, size_t most) : factory_(&factory), most_(most) {}
  // For places where no payload has landed yet.
  void use(CheckerFactory& factory) { factory_ = &factory; }

  // Whether a check has been added that has not ended.
  bool any() const { return under_way_ > 0; }

  // Begins with the next batch. False: no checker can read that memory.
  bool add(MemoryPlace place, const PayloadCheck& check);
  // Of a copier, which outlives this: the same for each copy.
  void add(PageCopier& copier, const PageCopy& copy) {
    copier_ = &copier;
    copier.begin(copy);
    ++under_way_;
  }

  // Begins what was added, as far as the checkers have room, one batch for each; and tells `ended`
  // of each check that has ended. Returns how many.
  template <typename Ended>
  size_t advance(const Ended& ended) {
    size_t count = 0;
    for (Place& place : places_) {
      if (place.checker == nullptr) continue;
      begin(place);
      count += poll(*place.checker, ended);
    }
    if (copier_ != nullptr) count += poll(*copier_, ended);
    under_way_ -= count;
    return count;
  }

 private:
  struct Place {
    MemoryPlace place;
    std::unique_ptr<Checker> checker;   // null: no checker for that memory
    std::vector<PayloadCheck> waiting;  // to be begun
  };

  template <typename Polled, typename Ended>
  size_t poll(Polled& polled, const Ended& ended) {
    size_t sum = 0;
    for (size_t count = ends_.size(); count == ends_.size(); sum += count) {
      count = polled.poll(ends_);
      for (size_t i = 0; i < count; ++i) ended(ends_[i]);
    }
    return sum;
  }
  Place& at(MemoryPlace place);
  static void begin(Place& place);

  CheckerFactory* factory_;
  const size_t most_;
  PageCopier* copier_ = nullptr;
  size_t under_way_ = 0;
  std::vector<Place> places_;
  std::array<CheckEnd, 64> ends_;
  WarningLimiter warnings_;
};

}  // namespace farpage
