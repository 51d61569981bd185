#pragma once

#include <memory>
#include <optional>

#include "base/status.h"
#include "transport/source_memory.h"

namespace farpage::shm {

// The file in memory that a client's pages lie in, as an engine's pool in /dev/shm does: not
// sealed, so that who has it open may shorten it at any time.
std::optional<RegionExport> export_file_of(const MemoryRange& memory);

// Maps it, for reading alone. Refuses what is no file in memory, and a file of another user.
Result<std::unique_ptr<PeerSource>> import_file(RegionExport memory);

}  // namespace farpage::shm
