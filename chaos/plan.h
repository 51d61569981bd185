#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "chaos/kinds.h"
#include "sim/fault/fault_plan.h"
#include "sim/network/sim_options.h"
#include "sim/sim_cluster.h"

namespace farpage::chaos {

// An action or a disturbance, complete in itself: one that ends again says when. So any of them can
// be left out, and the rest still is a plan. Hosts by their numbers in the cluster.
struct FetchPages {
  size_t client;
  std::vector<uint64_t> keys;
  uint64_t patience_ns;
  bool newest_known;
};
// The client lets go of what it began to fetch last.
struct CancelFetch {
  size_t client;
};
// One put of several pages; a key may come twice.
struct PutPages {
  size_t client;
  std::vector<uint64_t> keys;
  uint64_t patience_ns;
};
struct RemovePage {
  size_t client;
  uint64_t key;
  uint64_t patience_ns;
};
struct AskForPage {
  size_t client;
  uint64_t key;
  uint64_t patience_ns;
};
// Of what one host posts, until the next of these.
struct SpoilOperations {
  size_t host;
  fault::FaultPlan plan;
};
struct FlipAtRest {
  size_t node;
};
struct EndNode {
  size_t node;
  NodeEnd end;
  uint64_t down_ns;
};
struct Disturb {
  Disturbance kind;  // of those that are not an end of a node
  size_t host;       // a client, unless it is about two hosts
  size_t other;      // a node; or, of two that are parted, any
  uint64_t for_ns;
};
struct ChangeNetwork {
  sim::SimOptions options;
};

struct Action {
  uint64_t at_ns;  // after the run has begun
  std::variant<FetchPages, PutPages, RemovePage, AskForPage, SpoilOperations, FlipAtRest, EndNode,
               Disturb, ChangeNetwork, CancelFetch>
      what;
};
// One line for people.
std::string describe(const Action& action);

struct PlanOptions {
  uint64_t clients = 3;
  uint64_t nodes = 1;
  uint64_t replicas = 1;
  bool keep_pools = false;  // a node leaves its pages to its next run, unless power is lost
  std::array<bool, kKinds> kinds = all_kinds();  // that may happen

  static constexpr std::array<bool, kKinds> all_kinds() {
    std::array<bool, kKinds> all{};
    all.fill(true);
    return all;
  }
};

// A whole run. A plain value: the same plan gives the same run, with any of its actions left out.
struct Plan {
  uint64_t seed = 0;
  SimClusterOptions cluster;
  uint64_t keys = 0;
  std::vector<Action> actions;  // in order of time
};

Plan draw_plan(uint64_t seed, const PlanOptions& options);

}  // namespace farpage::chaos
