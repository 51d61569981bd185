#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "integrity/page_header.h"
#include "pagetable/geometry.h"
#include "pagetable/index_layout.h"

namespace farpage {

// The node's end of the one-sided index: the only writer of its buckets, while clients read them at
// any moment. Every change is one aligned store; an entry that moves is written in its new place
// before it leaves the old one. One thread.
class IndexWriter {
 public:
  // `buckets` lies in registered memory, zeroed or as another writer has left it. `headers` is
  // the region of the slots' headers, from which the keys of entries are read back; both outlive
  // the writer.
  IndexWriter(const Geometry& geometry, std::span<Bucket> buckets, const std::byte* headers);

  // The slot that the index names for this key.
  std::optional<uint32_t> find(const PageKey& key) const;
  // The slot of an entry that may be this key's, and whose header is damaged: its key is unknown.
  std::optional<uint32_t> find_damaged(const PageKey& key) const;

  // False: both buckets are full, and no entry of them can move. `key` must not be in the index,
  // and the header in `slot` must name it.
  bool insert(const PageKey& key, uint32_t slot);
  void replace(const PageKey& key, uint32_t old_slot, uint32_t new_slot);
  void erase(const PageKey& key, uint32_t slot);
  // For a slot whose header is damaged, so that its key is not known: looks through the whole index
  // for its entry, empties it, and raises the floor of the bucket that it was in.
  void erase_damaged(uint32_t slot, Version floor);
  // Makes these buckets, as others read them, what the node goes by; how many entries were another.
  uint64_t mend(uint64_t first, uint64_t end);
  // For when insert() has failed: the slot of an entry that stands in the way, and may go.
  std::optional<uint32_t> in_the_way(const PageKey& key,
                                     const std::function<bool(uint32_t slot)>& may_go) const;

  // The version floor (protocol rule 11): of a page that was evicted or dropped, no version at or
  // below this comes back, from any source. Private to the node, one for each bucket.
  Version floor(const PageKey& key) const;
  void raise_floor(const PageKey& key, Version version);

 private:
  const PageHeader& header(uint64_t slot) const;
  uint64_t* find_entry(const PageKey& key, uint32_t slot);
  uint64_t* empty_entry(uint64_t bucket);
  bool make_room(uint64_t bucket);

  // Here, and then where the clients read it.
  void publish(uint64_t& entry, IndexEntry value);

  Geometry geometry_;
  std::vector<Bucket> own_;  // what the node itself goes by: a bit that flips in memory which
                             // others read must not hide a page from its own next put
  std::span<Bucket> published_;
  const std::byte* headers_;
  std::vector<Version> floors_;
};

}  // namespace farpage
