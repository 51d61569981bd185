#pragma once

#include <cstdint>
#include <vector>

#include "base/unique_fd.h"
#include "control.pb.h"
#include "control/messages.h"

// The parts that several messages have: each as a value and as it stands in a body. Descriptors
// travel beside the body, in the order of `descriptors`.
namespace farpage {

Code to_code(uint32_t code);
void put(wire::Key& to, const PageKey& from);
PageKey get(const wire::Key& from);
void put(wire::Region& to, RegionExport&& from, std::vector<UniqueFd>& descriptors);
RegionExport get(const wire::Region& from, std::vector<UniqueFd>& descriptors);
void put(wire::Offer& to, ChannelOffer&& from, std::vector<UniqueFd>& descriptors);
ChannelOffer get(const wire::Offer& from, std::vector<UniqueFd>& descriptors);
void put(wire::VerdictCounts& to, const VerdictCounts& from);
VerdictCounts get(const wire::VerdictCounts& from);
void put(wire::StatusReply& to, StatusReply&& from);
StatusReply get(const wire::StatusReply& from);
void put(wire::EpochTag& to, const EpochTag& from);
EpochTag get(const wire::EpochTag& from);
void put(wire::HeldPage& to, const HeldPage& from);
HeldPage get(const wire::HeldPage& from);

}  // namespace farpage
