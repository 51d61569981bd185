#pragma once

#include <cstdint>
#include <vector>

#include "pagetable/epoch.h"

namespace farpage {

// A fleet of `nodes` nodes n0, n1, … of which `replicas` hold each page.
Epoch scale_epoch(uint64_t nodes, uint64_t replicas, uint64_t page_bytes, uint64_t seed);

// Effect on keys when some nodes are lost at once.
struct Loss {
  std::vector<NodeId> nodes;
  uint64_t keys_touched = 0;       // that one of them held
  uint64_t keys_gone = 0;          // that no other node held
  uint64_t copies_to_make = 0;     // by the others, of the keys that are not gone
  std::vector<uint64_t> received;  // of those, by member of the epoch
  std::vector<uint64_t> sent;      // … which one that still holds the key may send
};

// Where the product's placement puts keys that are drawn at random.
struct PlacementSample {
  uint64_t keys = 0;
  double ns_per_lookup = 0;         // of one thread
  std::vector<uint64_t> held;       // keys, by member
  std::vector<uint64_t> primaries;  // keys, by member
  std::vector<Loss> losses;
};

// `losses`: how many nodes each loses, the first ones of the epoch. At least `replicas` + 1 remain.
PlacementSample sample_placement(const Epoch& epoch, uint64_t keys, uint64_t seed,
                                 const std::vector<uint64_t>& losses, uint64_t threads);

// How uneven counts are that chance alone makes even.
struct Evenness {
  double mean = 0;
  double largest = 0;  // as a part of the mean
  double smallest = 0;
  double deviation = 0;  // standard, as a part of the mean
  double chance = 0;     // the standard deviation that a perfect hash has with as many keys
  // Of the largest node's share at `at_keys` keys a node: what was seen, and five standard
  // deviations of chance, once for the sample and once for those keys.
  double largest_at_most = 0;
};
Evenness evenness(const std::vector<uint64_t>& counts, uint64_t at_keys);

// Upper bound of the expected largest of `cells` counts, as a part of their mean, where chance
// alone makes them differ: 1 + sqrt(2 ln(cells) / mean).
double expected_largest(double mean, uint64_t cells);

}  // namespace farpage
