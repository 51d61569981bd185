#pragma once

#include <cstdint>

namespace farpage {

struct EveryNodeOptions {
  uint64_t nodes = 1'000;   // each real one has some 4 KB for each other one
  uint64_t few = 10;        // nodes that a client uses which needs no more
  uint64_t pages_each = 2;  // of a node, on the average
  uint64_t silent = 100;    // nodes that lose their power before the last fetch
  uint64_t deadline_ms = 50;
  uint64_t seed = 1;
};

// One client that asks every node of a large fleet at one time, in virtual time: real nodes, none
// of which reaches another, with each page on one of them.
struct EveryNode {
  struct Fetch {
    uint64_t ready = 0;
    uint64_t wrong = 0;    // ready with other bytes than those of the put
    uint64_t late_ns = 0;  // from its deadline until its end; 0: before it
    uint64_t last_ns = 0;  // until the last verdict
    uint64_t cpu_ns = 0;   // of the whole simulation
  };
  uint64_t nodes = 0;
  uint64_t pages = 0;
  uint64_t of_silent = 0;         // pages on nodes that lose their power
  uint64_t few_heap_bytes = 0;    // of a client that has used `few` nodes, both ends
  uint64_t every_heap_bytes = 0;  // … that has used all
  Fetch few = {};                 // the pages of `few` nodes, by a new client
  Fetch cold = {};                // all pages in one call, by a new client
  Fetch warm = {};                // … once more
  Fetch silent = {};              // … just after nodes have lost their power
};
EveryNode ask_every_node(const EveryNodeOptions& options);

}  // namespace farpage
