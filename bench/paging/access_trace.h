#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/trace.h"
#include "prefetch/access.h"
#include "prefetch/policy.h"

namespace farpage::paging {

// What was demanded, in order.
struct AccessTrace {
  std::string name;
  bool synthetic = false;
  uint64_t pages = 0;  // how many different ones
  std::vector<prefetch::Access> accesses;
};

// Each block of a prompt is a page, each request a step.
AccessTrace accesses_of(const Trace& trace);

// Of all of a trace at once: eight bytes for each access.
class TraceFuture final : public prefetch::Future {
 public:
  explicit TraceFuture(const AccessTrace& trace);
  uint64_t next(uint64_t access_number) const override { return next_[access_number]; }

 private:
  std::vector<uint64_t> next_;
};

}  // namespace farpage::paging
