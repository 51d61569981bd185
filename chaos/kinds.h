#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/fault/fault_plan.h"

namespace farpage::chaos {

// Disturbances of hosts and links, beside the faults of single operations (fault::FaultKind).
enum class Disturbance : uint8_t {
  kStopped,         // a node ends in good order, and starts again later
  kKilled,          // … its process is gone, and its memory still answers
  kPowerLost,       // … nothing of it answers any more
  kNodePaused,      // its process stands still, and its memory answers
  kClientPaused,    // an engine and its client stand still
  kPeersStopped,    // a host sees no completion of any peer for a while
  kLinksCut,        // control connections are lost
  kLinksSilent,     // control connections carry nothing, and no end is told
  kParted,          // nothing passes between two hosts for a while
  kDialsRefused,    // a client finds no node for a while, and reads on under the view that it has
  kRegisterSilent,  // the register's answers are lost for a while
  kEpochUnread,     // … to what one host reads, while the register hears that the host lives
};
inline constexpr size_t kDisturbances = 12;
inline constexpr std::array<std::string_view, kDisturbances> kDisturbanceNames = {
    "stopped",   "killed",       "power_lost", "node_paused",   "client_paused",   "peers_stopped",
    "links_cut", "links_silent", "parted",     "dials_refused", "register_silent", "epoch_unread",
};

// Befalls the register of epochs, which a node alone does not have.
constexpr bool is_of_register(Disturbance kind) {
  return kind == Disturbance::kRegisterSilent || kind == Disturbance::kEpochUnread;
}
// Befalls what passes between two hosts.
constexpr bool is_of_two(Disturbance kind) {
  return kind == Disturbance::kLinksCut || kind == Disturbance::kLinksSilent ||
         kind == Disturbance::kParted;
}

// Both, under one number.
using Kind = size_t;
inline constexpr size_t kKinds = fault::kFaultKinds + kDisturbances;
constexpr Kind kind_of(fault::FaultKind kind) {
  return static_cast<size_t>(kind);
}
constexpr Kind kind_of(Disturbance kind) {
  return fault::kFaultKinds + static_cast<size_t>(kind);
}
constexpr std::string_view kind_name(Kind kind) {
  return kind < fault::kFaultKinds ? fault::kFaultNames[kind]
                                   : kDisturbanceNames[kind - fault::kFaultKinds];
}
inline constexpr std::array<std::string_view, kKinds> kKindNames = [] {
  std::array<std::string_view, kKinds> names;
  for (Kind kind = 0; kind < kKinds; ++kind) names[kind] = kind_name(kind);
  return names;
}();

}  // namespace farpage::chaos
