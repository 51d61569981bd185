#pragma once

#include <cstdint>

namespace farpage {

// Every allocation of a program that links farpage_test_allocations is seen: operator new, and what
// C libraries take.
void start_counting_allocations();
uint64_t stop_counting_allocations();

// How many this thread has made meanwhile.
template <typename Act>
uint64_t allocations_of(const Act& act) {
  start_counting_allocations();
  act();
  return stop_counting_allocations();
}

}  // namespace farpage
