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
void put(wire::PathTraffic& to, PathTraffic&& from);
PathTraffic get(const wire::PathTraffic& from);
void put(wire::PortTraffic& to, PortTraffic&& from);
PortTraffic get(const wire::PortTraffic& from);
void put(wire::FleetStatus& to, const FleetStatus& from);
FleetStatus get(const wire::FleetStatus& from);
void put(wire::ScrubCounts& to, const ScrubCounts& from);
ScrubCounts get(const wire::ScrubCounts& from);
void put(wire::ClientBudgetStatus& to, const ClientBudgetStatus& from);
ClientBudgetStatus get(const wire::ClientBudgetStatus& from);
void put(wire::TenantStatus& to, TenantStatus&& from);
TenantStatus get(const wire::TenantStatus& from);
void put(wire::PushCounts& to, const PushCounts& from);
PushCounts get(const wire::PushCounts& from);
void put(wire::EpochTag& to, const EpochTag& from);
EpochTag get(const wire::EpochTag& from);
void put(wire::HeldPage& to, const HeldPage& from);
HeldPage get(const wire::HeldPage& from);

}  // namespace farpage
