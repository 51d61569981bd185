#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "control/messages.h"

// All that a received message is held to, besides being one: the codec looks here, and a repeated
// field that has no line here fails its check of the protocol. Other numbers are taken as they are.
namespace farpage {

struct EntryLimit {
  std::string_view field;
  uint32_t entries;
};

inline constexpr auto kEntryLimits = std::to_array<EntryLimit>({
    {"CommitRequest.pages", kMaxCommitPages},
    {"CommitReply.results", kMaxCommitPages},
    {"RemoveRequest.keys", kMaxRemoveKeys},
    {"PushRequest.pages", kMaxPushPages},
    {"PushReply.codes", kMaxPushPages},
    {"ReplicateRequest.pages", kMaxReplicaPages},
    {"ReplicateReply.codes", kMaxReplicaPages},
    {"HoldingsRequest.keys", kMaxReplicaPages},
    {"HoldingsReply.pages", kMaxReplicaPages},
    {"ReportRequest.keys", kMaxReplicaPages},
    {"EpochReply.members", kMaxFleetMembers},
    {"StatusReply.traffic", kMaxTrafficPaths},
    {"StatusReply.ports", kMaxTrafficPaths},
    {"StatusReply.tenants", kMaxTenants},
    {"StatusReply.name_spaces", kMaxNameSpaces},
    {"FleetStatus.others", kMaxFleetMembers},
});

// Numbers that name no value of theirs, as a newer or a hostile peer sends them, are taken for
// another: each says so for itself.
constexpr Code known(Code, uint32_t code) {
  return code < kCodes ? static_cast<Code>(code) : Code::kProtocol;
}

constexpr Access known(Access, uint32_t access) {
  const bool write = access == static_cast<uint32_t>(Access::kRemoteWrite);
  return write ? Access::kRemoteWrite : Access::kRemoteRead;
}

constexpr ChannelPurpose known(ChannelPurpose, uint32_t purpose) {
  const bool stage = purpose == static_cast<uint32_t>(ChannelPurpose::kStage);
  return stage ? ChannelPurpose::kStage : ChannelPurpose::kRead;
}

constexpr MemoryKind known(MemoryKind, uint32_t kind) {
  const bool cuda = kind == static_cast<uint32_t>(MemoryKind::kCuda);
  return cuda ? MemoryKind::kCuda : MemoryKind::kHost;
}

// A device that no slice can name is none: the kind says already that it is not host memory.
constexpr int16_t known(int16_t, int32_t device) {
  return std::in_range<int16_t>(device) ? static_cast<int16_t>(device) : MemoryPlace().device;
}

}  // namespace farpage
