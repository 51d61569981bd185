#pragma once

#include <cstdint>
#include <memory>

#include "base/memory/mapping.h"
#include "sim/network/network.h"
#include "transport/memory.h"
#include "transport/operation.h"

namespace farpage::sim {

// Zeroed memory that a peer may reach; `target`: of kRemoteWrite, the one whose peer may write.
Result<Region> allocate_region(const std::shared_ptr<Network>& network, const Host& host,
                               uint64_t bytes, Access access, uint32_t target);
// Memory that a peer may read, and that was there before.
Region lasting_region(const std::shared_ptr<Network>& network, const Host& host, Mapping memory,
                      uint64_t bytes);
Result<Region> register_region(const std::shared_ptr<Network>& network, const Host& host,
                               const MemoryRange& range);

// The key in a peer's export, after every other field of it has been checked for sense.
Result<uint64_t> key_of(const RegionExport& region);
std::string opaque_key(uint64_t key);

enum class Move : uint8_t { kGather, kScatter };

// Copies [begin, begin + bytes) of an operation between its slices and `whole`, where they lie one
// after the other.
void move_local(const Operation& operation, std::byte* whole, uint64_t begin, uint64_t bytes,
                Move direction);

}  // namespace farpage::sim
