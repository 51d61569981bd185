#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "base/status.h"
#include "transport/memory.h"

namespace farpage {

// Where the bytes of a page lie in memory that a node may read in place.
struct SourcePlace {
  uint32_t source = 0;
  uint64_t offset = 0;
};

// Registered memory of this client that pages are put from. What a second put takes pages of is
// worth being told to nodes; what is registered for one operation, or for fetches, is not.
// Thread-safe.
class ClientSources {
 public:
  struct Wanted {
    uint32_t source = 0;
    MemoryRange memory;
  };

  // Returns its number, which no other one has had.
  uint32_t add(const MemoryRange& memory);
  void remove(uint32_t source);
  bool has(uint32_t source) const;

  // The number of a put, for find().
  uint64_t begin_put();
  // Of bytes that lie within one; nothing: they lie within none.
  std::optional<SourcePlace> find(const Slice& bytes, uint64_t put);
  // Sources that a second put has found; each once.
  std::vector<Wanted> take_wanted();

  // Other processes of the host reach it so.
  void exported(uint32_t source, RegionExport memory);
  std::vector<uint32_t> all_exported() const;
  // For one node, with a descriptor of its own. Nothing: it has gone, or there is no descriptor
  // left.
  std::optional<RegionExport> export_of(uint32_t source) const;

 private:
  struct Source {
    uint32_t number;
    MemoryRange memory;
    uint64_t first_put = 0;
    bool is_wanted = false;  // or was
    std::optional<RegionExport> exported = {};
  };

  mutable std::mutex mutex_;
  uint32_t last_ = 0;
  uint64_t last_put_ = 0;
  std::multimap<uintptr_t, Source> sources_;  // by where they begin
  std::vector<Wanted> wanted_;
};

// Which of them one run of a node has been told of, and which it reads. Thread-safe.
class SourcesAtNode {
 public:
  explicit SourcesAtNode(uint32_t most = 0) : most_(most) {}

  // False: it has been told already, or takes no more.
  bool begin(uint32_t source);
  void taken(uint32_t source);
  // True: the node has been told, and is to forget it.
  bool end(uint32_t source);
  bool reads(uint32_t source) const;

 private:
  mutable std::mutex mutex_;
  uint32_t most_;
  std::set<uint32_t> told_;
  std::set<uint32_t> taken_;
};

}  // namespace farpage
