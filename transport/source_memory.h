#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/status.h"
#include "transport/memory.h"

namespace farpage {

// A client's memory, which this process reads where it lies.
class PeerSource {
 public:
  virtual ~PeerSource() = default;

  virtual uint64_t bytes() const = 0;
  // Copies, and returns the CRC-32C of exactly the bytes that it stored, whatever the client does
  // with them meanwhile. Nothing: they are not within the memory, or the client has taken some of
  // them away.
  virtual std::optional<uint32_t> copy(void* to, uint64_t offset, uint64_t bytes) const = 0;
};

// A fabric with which a node on the client's host can read the pages of a put out of the client's
// own memory: they need no staging. Optional: ask for it with dynamic_cast<SourceMemory*>.
class SourceMemory {
 public:
  virtual ~SourceMemory() = default;

  // Of memory that the client has registered. Nothing: no other process can reach it.
  virtual std::optional<RegionExport> export_source(const MemoryRange& memory) = 0;
  // What a client exports, and may change or take away at any time. It is untrusted.
  virtual Result<std::unique_ptr<PeerSource>> import_source(RegionExport memory) = 0;
};

}  // namespace farpage
