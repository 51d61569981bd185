#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace farpage::processes {

// Of a fetch, put or remove that ended after its deadline.
struct Lateness {
  uint64_t ns = 0;
  std::string what = {};
  uint64_t waited_ns = 0;  // its thread, for a processor, since it began
  uint64_t ran_ns = 0;     // its thread, since then
  // Other threads that may each have had to wait for a processor, one after the other: for a fetch
  // into a GPU the client's, and one that had the driver's lock.
  uint64_t others = 0;

  // Whether processors that had other work explain it. `longest_ns`: that the watchdog, a thread of
  // the same process, had to wait for one.
  bool is_explained(uint64_t longest_ns) const {
    return ns <= std::max(waited_ns, longest_ns) + others * longest_ns;
  }
};

}  // namespace farpage::processes
