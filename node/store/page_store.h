#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "node/store/eviction.h"
#include "node/store/index_writer.h"
#include "node/store/kept_pool.h"
#include "node/store/name_spaces.h"
#include "node/store/ranked_pages.h"
#include "node/store/recovered_pages.h"
#include "node/store/slot_table.h"
#include "pagetable/geometry.h"
#include "transport/fabric.h"
#include "transport/source_memory.h"

namespace farpage {

struct PageStoreOptions {
  Geometry geometry;
  uint64_t incarnation = 0;
  uint64_t reuse_ns = 0;  // `read_window`; slots cool for L(1+ε)
  bool evict = true;
  std::string eviction = std::string(kClock);  // what goes then: choose_eviction()
};

// A node's pages: pool, index and slots, with the order of stores that makes them safe to read
// one-sided at any moment (APPLY, EVICT and REUSE of the protocol). One thread.
class PageStore {
 public:
  static Result<std::unique_ptr<PageStore>> create(const PageStoreOptions& options, Fabric& fabric,
                                                   const Clock& clock,
                                                   PoolHandoff* keeper = nullptr,
                                                   std::string_view whose = {});

  // Pages of the run before this one, whose memory the keeper had. They are served when they have
  // been adopted, under this run's incarnation; what is not goes when its slot is wanted.
  size_t former() const { return former_.size(); }
  // One whose version a node that serves it now confirms. False: it is not here.
  bool adopt(const PageKey& key, Version version);
  // All that are of an epoch before this one, where no other node has taken puts since; how many.
  size_t adopt_all(uint64_t epoch);
  // No more than so many.
  void drop_former(size_t most);

  // Copies the payload into a slot, checks the slot's bytes against `payload_crc`, publishes the
  // page in place of the key's last version, and clears that one's live word. When it returns kOk,
  // no read that starts later finds the old one. kExhausted: no slot now; see next_slot_ns().
  // kAborted: the bytes do not have that CRC. kInvalid: too long, or not above the floor, which
  // does not bind what comes in the order of a primary's puts (protocol rule 11).
  // `name_space`: the tag of who puts it, or 0.
  Code put(const PageKey& key, Version version, std::span<const std::byte> payload,
           uint32_t payload_crc, bool in_order = false, uint32_t name_space = 0);
  // The same of a payload in a client's memory. kAborted also: the client has taken it away.
  struct SourcePayload {
    const PeerSource& source;
    uint64_t offset = 0;
    uint32_t bytes = 0;
  };
  Code put(const PageKey& key, Version version, const SourcePayload& payload, uint32_t payload_crc,
           bool in_order, uint32_t name_space);

  // The same in two steps, for a payload that comes into its slot from elsewhere: a slot for it,
  // evicting where that must be, and nothing if there is none now; then publish(), of what has been
  // checked there, or release(). kExhausted of publish(): it was released.
  std::optional<uint32_t> take();
  Code publish(uint32_t slot, const PageKey& key, Version version, uint32_t payload_bytes,
               uint32_t payload_crc, uint32_t name_space);
  void release(uint32_t slot) { slots_.release(slot); }
  // Before take(), for a page that comes by a put.
  void want(const PageKey& key) {
    if (ranked_ != nullptr) ranked_->want(key);
  }

  // False: there was no such page.
  bool remove(const PageKey& key);
  // Nothing at `version` or below comes back by a fill, also where there was no such page.
  bool remove(const PageKey& key, Version version);
  Version floor(const PageKey& key) const { return index_.floor(key); }

  // Evicts the pages of a namespace in the slots from `first` to `end`, also those that only other
  // nodes read and those that are not adopted yet, but none that is pinned.
  struct Flushed {
    uint64_t evicted = 0;
    uint64_t pinned = 0;  // and left there
  };
  Flushed flush(uint32_t name_space, uint32_t first, uint32_t end);
  NameSpaces& name_spaces() { return name_spaces_; }
  const NameSpaces& name_spaces() const { return name_spaces_; }

  // Looks at the key's slot again, header and payload, and drops the page if it is not whole: then
  // kAborted. The same version may come back by a fill. kNotFound: there is none.
  Code check(const PageKey& key);

  // The same of whatever lies in a slot. kNotFound: no page that is read. kAborted: it was dropped;
  // without a key, the page is unknown, and it comes back only by its next put.
  struct SlotFinding {
    Code code = Code::kNotFound;
    uint64_t bytes = 0;  // that were looked at
    std::optional<PageKey> key = {};
  };
  SlotFinding check_slot(uint32_t slot);
  // Makes the index as others read it what the node goes by, for the share of it that the slots
  // from `first` to `end` are of all slots; how many entries were another.
  uint64_t mend_index(uint32_t first, uint32_t end);

  // Where the page of this key lies now, and how long it is. Nothing if its header is damaged: a
  // version that cannot be believed is no reason to take a newer page for an old one.
  struct StoredPage {
    uint32_t slot;
    uint32_t payload_bytes;
    Version version;
  };
  std::optional<StoredPage> find(const PageKey& key) const;

  // A page that other nodes are to read is not evicted.
  void pin(uint32_t slot, Version version);
  void unpin(uint32_t slot, Version version);

  // Another epoch: no other node is told from now on of what is dead. Its slots are the first that
  // puts take.
  void begin_epoch() { slots_.begin_epoch(); }
  // Unpublishes the pages in the slots from `first` to `end` of which `foreign` is true. Other
  // nodes may read their bytes in this epoch, until their slots are needed.
  void kill_if(uint32_t first, uint32_t end, const std::function<bool(const PageKey&)>& foreign);

  // Every page in the slots from `first` on, also dead ones that serve fills, until `visit` says
  // no; the slot to go on with, 0 at the end. Looks at no more than `most` slots.
  uint32_t walk(
      uint32_t first, uint32_t most,
      const std::function<bool(uint32_t slot, const PageHeader&, bool dead)>& visit) const;

  // When put() may find a slot; kNever: only when something is removed.
  uint64_t next_slot_ns() const { return slots_.next_take_ns(); }
  void touch(uint32_t slot);
  // Whether the next put is about to evict: the moment to bring the touches in.
  bool must_evict() const;
  // A policy learns from touches also while nothing has to go, and each costs it more than CLOCK.
  bool is_ranked() const { return ranked_ != nullptr; }

  const Geometry& geometry() const { return options_.geometry; }
  const SlotTable& slots() const { return slots_; }
  // Of the payloads, and of the headers where these have no region of their own.
  const Region& pool() const { return pool_; }
  const Region& headers() const { return geometry().is_apart() ? headers_ : pool_; }
  // A slot's payload, and where both parts of a page lie for who sends them on.
  std::byte* payload(uint32_t slot) const;
  Slice header_slice(uint32_t slot) const;
  Slice payload_slice(uint32_t slot, uint64_t bytes) const;
  const Region& index() const { return index_region_; }
  uint64_t evictions() const { return evictions_; }
  Version highest_version() const { return highest_version_; }  // of what was ever published

 private:
  PageStore(const PageStoreOptions& options, const Clock& clock, Pool pool, Region index,
            const std::optional<prefetch::ChosenPolicy>& policy);

  template <typename Copy>
  Code put(const PageKey& key, Version version, uint64_t payload_bytes, uint32_t payload_crc,
           bool in_order, uint32_t name_space, const Copy& copy);
  void find_former();
  void adopt(uint32_t slot);

  PageHeader& header(uint32_t slot) const;
  // The slot of this key's page, or of one with a damaged header that may have been.
  std::optional<uint32_t> locate(const PageKey& key) const;
  uint32_t cooling_target() const;
  bool is_whole(uint32_t slot, const PageKey& key) const;
  void evict_ahead();
  bool evict_one();
  bool give_back_one();
  std::optional<uint32_t> choose_victim();
  void came(uint32_t slot, const PageKey& key);
  bool is_of(uint32_t name_space, uint32_t slot) const;
  bool flush_slot(uint32_t slot);
  void drop_dead(uint32_t slot);
  void cool(uint32_t slot);
  void retire(uint32_t slot);
  void unpublish(uint32_t slot);
  void zero_live(uint32_t slot);
  void clear_live(uint32_t slot);

  PageStoreOptions options_;
  const Clock& clock_;
  Region pool_;
  Region headers_;
  Region index_region_;
  IndexWriter index_;
  SlotTable slots_;
  NameSpaces name_spaces_;
  std::unique_ptr<RankedPages> ranked_;  // null: what goes, CLOCK says
  std::unordered_map<uint32_t, Version>
      pinned_;  // what is not read from memory that can be damaged
  uint64_t evictions_ = 0;
  RecoveredPages former_;
  Version highest_version_ = 0;
};

}  // namespace farpage
