#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/memory/memory_place.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace farpage {

enum class Access : uint8_t {
  kLocal,        // landing places and sources of this process; no peer reaches them
  kRemoteRead,   // any connected peer may read, none may write
  kRemoteWrite,  // the one peer of the channel that it belongs to may write; no other reaches it
};

struct MemoryRange {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  MemoryPlace place = {};
  // Of a device's memory: a dma-buf that begins at `data`, which the caller may close once it is
  // registered. -1: none, and a backend needs the help of the device's kernel driver.
  int dma_buf = -1;
};

// A view of a part of one region: where a read lands, or what a write takes. Valid while its region
// is.
struct Slice {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t local_key = 0;  // the backend's name for the registration
  MemoryPlace place = {};
};

// Registered memory. Move-only; the destructor ends the registration and, where the backend
// allocated the memory, frees it. It keeps its backend's domain alive. Once the destructor has
// returned, no operation touches the memory; those still in flight end as failed. Not while another
// thread drives a channel with operations on it.
class Region {
 public:
  // A backend's state for one registration; its destructor ends it.
  class Backing {
   public:
    virtual ~Backing() = default;
  };

  Region() = default;
  Region(const MemoryRange& range, Access access, uint64_t local_key,
         std::unique_ptr<Backing> backing)
      : range_(range), access_(access), local_key_(local_key), backing_(std::move(backing)) {}

  std::byte* data() const { return range_.data; }
  uint64_t bytes() const { return range_.bytes; }
  MemoryPlace place() const { return range_.place; }
  Access access() const { return access_; }
  Backing* backing() const { return backing_.get(); }

  Slice slice(uint64_t offset, uint64_t bytes) const {
    FARPAGE_CHECK(offset <= range_.bytes && bytes <= range_.bytes - offset);
    return {range_.data + offset, bytes, local_key_, range_.place};
  }

 private:
  MemoryRange range_;
  Access access_ = Access::kLocal;
  uint64_t local_key_ = 0;
  std::unique_ptr<Backing> backing_;
};

// Data that a peer needs to reach a region; travels on the control plane. Untrusted where it
// arrives.
struct RegionExport {
  uint64_t bytes = 0;
  Access access = Access::kRemoteRead;
  MemoryPlace place = {};
  std::string opaque;  // the backend's own part: an rkey and an address, a packed key
  UniqueFd fd;         // shm: the memory itself
};

// The initiator's uses of its peer's region: proven when it imports it, and not again for each
// operation.
struct RegionUse {
  Access access = Access::kRemoteRead;  // kRemoteRead: it reads there; kRemoteWrite: it writes
  uint64_t bytes = 0;                   // no operation goes beyond so many
};

// A peer's region as one initiator knows it: a plain value.
struct RemoteRegion {
  uint32_t index = 0;  // in the initiator's table of imported regions
};

}  // namespace farpage
