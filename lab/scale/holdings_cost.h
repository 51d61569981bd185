#pragma once

#include <cstdint>

namespace farpage {

// What one epoch costs one node's thread for all other members, which ask it for the pages of
// theirs that it holds (node/fleet/holdings.h): by real code, at one size of the fleet.
struct HoldingsCost {
  uint64_t pages = 0;          // that the node held
  uint64_t walk_ns = 0;        // through all of them, where the others hold nothing yet
  uint64_t walk_whole_ns = 0;  // … where they had what was theirs before a member left
  uint64_t told = 0;           // pages, to all who hold nothing
  uint64_t told_whole = 0;     // … to all who had what was theirs
  uint64_t tell_ns = 0;        // of the answers with `told` pages, encoded
  uint64_t answers = 0;        // with nothing to tell
  uint64_t answers_ns = 0;

  double walk_ns_per_page() const { return ratio(walk_ns, pages); }
  double walk_whole_ns_per_page() const { return ratio(walk_whole_ns, pages); }
  double tell_ns_per_page() const { return ratio(tell_ns, told); }
  double ns_per_answer() const { return ratio(answers_ns, answers); }

 private:
  static double ratio(uint64_t ns, uint64_t count) {
    return count == 0 ? 0 : static_cast<double>(ns) / static_cast<double>(count);
  }
};

// `pages`: of random keys that are the node's. Times are the fastest of `tries`.
HoldingsCost measure_holdings(uint64_t nodes, uint64_t replicas, uint64_t pages, uint64_t tries,
                              uint64_t seed);

}  // namespace farpage
