#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace farpage::processes {

enum class Kind : uint8_t {
  kKilled,      // a node's process, with SIGKILL, and it starts again
  kStopped,     // … with SIGTERM
  kNodePaused,  // … SIGSTOP and SIGCONT
  kLinkDown,    // a host's link is down, and up again
  kParted,      // what goes to and from a host is lost, while its link looks well
  kEtcdKilled,  // SIGKILL, and it starts again
  kEtcdPaused,  // SIGSTOP and SIGCONT
  kEtcdParted,  // as kParted
};
inline constexpr size_t kKinds = 8;
inline constexpr std::array<std::string_view, kKinds> kKindNames = {
    "killed", "stopped",     "node_paused", "link_down",
    "parted", "etcd_killed", "etcd_paused", "etcd_parted"};
using KindCounts = std::array<uint64_t, kKinds>;

constexpr bool is_of_etcd(Kind kind) {
  return kind >= Kind::kEtcdKilled;
}
// Needs hosts of their own.
constexpr bool is_of_network(Kind kind) {
  return kind == Kind::kLinkDown || kind == Kind::kParted || kind == Kind::kEtcdParted;
}

struct Disturbance {
  uint64_t at_ms = 0;  // after its round has begun
  Kind kind = Kind::kKilled;
  size_t node = 0;      // unless it is of etcd
  uint64_t for_ms = 0;  // of an end: until it starts again
};
std::string describe(const Disturbance& disturbance);

// How many times as long leases, the longest disturbances and limits of time are as for 8 nodes:
// all nodes share this machine, each renews with each, and they join one after the other.
constexpr uint64_t slowness(uint64_t nodes) {
  return round_up(nodes, 8) / 8;
}

struct PlanOptions {
  uint64_t seed = 1;
  uint64_t disturbances = 100;
  uint64_t nodes = 3;
  std::array<bool, kKinds> kinds = {};
};

// After each round everything has to come back by itself. In every other round one node alone is
// disturbed, and etcd: there, what the other nodes hold may not be lost. Of one process or cable,
// nothing overlaps.
using Round = std::vector<Disturbance>;  // in order of time
std::vector<Round> draw_plan(const PlanOptions& options);

}  // namespace farpage::processes
