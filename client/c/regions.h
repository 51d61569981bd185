#pragma once

#include <farpage/farpage.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "client/c/owner.h"
#include "transport/memory.h"

struct farpage_region {
  farpage::c_api::Owner owner;
  farpage_client* client = nullptr;
  farpage::Region memory;
  bool is_read_only = false;  // for puts alone
};

namespace farpage::c_api {

// The registered memory of a client, found by address. Any thread.
class Regions {
 public:
  // Looks regions up; as long as it lives none goes.
  class Reader {
   public:
    explicit Reader(const Regions& regions) : regions_(regions), lock_(regions.mutex_) {}
    // The region that all of these bytes lie in; null: none.
    const farpage_region* find(const void* data, uint64_t bytes);

   private:
    const Regions& regions_;
    std::shared_lock<std::shared_mutex> lock_;
    const farpage_region* last_ = nullptr;  // most pages of a batch lie in one
  };

  // Takes it over; false: some of its bytes lie in another one, and it is the caller's still.
  bool add(std::unique_ptr<farpage_region>& region);
  // Null: it is in use.
  template <typename InUse>
  std::unique_ptr<farpage_region> take(const farpage_region& region, InUse&& in_use) {
    const std::unique_lock lock(mutex_);
    if (in_use()) return nullptr;
    auto found = by_address_.extract(address(region));
    return std::move(found.mapped());
  }
  void clear();

 private:
  static uintptr_t address(const farpage_region& region) {
    return reinterpret_cast<uintptr_t>(region.memory.data());
  }

  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, std::unique_ptr<farpage_region>> by_address_;
};

}  // namespace farpage::c_api
