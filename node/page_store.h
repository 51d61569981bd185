#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.h"
#include "node/index_writer.h"
#include "node/slot_table.h"
#include "pagetable/geometry.h"
#include "transport/fabric.h"

namespace farpage {

struct PageStoreOptions {
  Geometry geometry;
  uint64_t incarnation = 0;
  uint64_t reuse_ns = 0;  // L; slots cool for L(1+ε)
  bool evict = true;
};

// A node's pages: pool, index and slots, with the order of stores that makes them safe to read
// one-sided at any moment (APPLY, EVICT and REUSE of the protocol). One thread.
class PageStore {
 public:
  static Result<std::unique_ptr<PageStore>> create(const PageStoreOptions& options, Fabric& fabric,
                                                   const Clock& clock);

  // Copies the payload into a slot, checks the slot's bytes against `payload_crc`, publishes the
  // page in place of the key's last version, and clears that one's live word. When it returns kOk,
  // no read that starts later finds the old one. kExhausted: no slot now; see next_slot_ns().
  // kAborted: the bytes do not have that CRC. kInvalid: too long, or not above the floor.
  Code put(const PageKey& key, Version version, std::span<const std::byte> payload,
           uint32_t payload_crc);

  // False: there was no such page.
  bool remove(const PageKey& key);

  // Where the page of this key lies now, and how long it is.
  struct StoredPage {
    uint32_t slot;
    uint32_t payload_bytes;
  };
  std::optional<StoredPage> find(const PageKey& key) const;

  // When put() may find a slot; kNever: only when something is removed.
  uint64_t next_slot_ns() const { return slots_.next_take_ns(); }
  void touch(uint32_t slot) { slots_.touch(slot); }
  // Whether the next put is about to evict: the moment to bring the touches in.
  bool must_evict() const;

  const Geometry& geometry() const { return options_.geometry; }
  const SlotTable& slots() const { return slots_; }
  const Region& pool() const { return pool_; }
  const Region& index() const { return index_region_; }
  uint64_t evictions() const { return evictions_; }

 private:
  PageStore(const PageStoreOptions& options, const Clock& clock, Region pool, Region index);

  PageHeader& header(uint32_t slot) const;
  uint32_t cooling_target() const;
  void evict_ahead();
  void retire(uint32_t slot);
  void clear_live(uint32_t slot);

  PageStoreOptions options_;
  const Clock& clock_;
  Region pool_;
  Region index_region_;
  IndexWriter index_;
  SlotTable slots_;
  uint64_t evictions_ = 0;
};

}  // namespace farpage
