#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/mapping.h"
#include "transport/memory.h"
#include "transport/tcp/wire.h"

namespace farpage::tcp {

// The memory of this process that peers may reach, by name. Each I/O thread marks with a Use that
// bytes move to or from a region; remove() waits for those under way, each no longer than one
// system call, so that a region's memory is touched by nobody afterwards. Nobody waits the other
// way round. Thread-safe.
class Exports {
 public:
  struct Entry {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    Access access = Access::kLocal;
    uint64_t channel = 0;  // kRemoteWrite: the one that may write
    uint32_t generation = 0;
  };

  // One I/O thread. The count is odd while bytes move.
  struct User {
    std::atomic<uint64_t> count{0};
  };
  // Of the same lifetime as this.
  User& add_user();

  class Use {
   public:
    Use(const Exports& exports, User& user) : exports_(exports), user_(user) {
      user_.count.fetch_add(1);  // before any look at what may be gone
    }
    ~Use() { user_.count.fetch_add(1); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    // Nothing: the key is not, or is no longer, that of a region. What is found stays while the Use
    // does.
    std::optional<Entry> find(const RegionKey& key) const;

   private:
    const Exports& exports_;
    User& user_;
  };

  RegionKey add(std::byte* data, uint64_t bytes, Access access, uint64_t channel);
  void remove(const RegionKey& key);
  // Returns once every Use that began before has ended.
  void wait_for_uses();

 private:
  mutable std::mutex mutex_;  // held for a look, never while bytes move
  std::deque<User> users_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  uint32_t last_generation_ = 0;
};

// Memory behind an exported region.
struct ExportedBacking final : Region::Backing {
  ExportedBacking(std::shared_ptr<Exports> table, Mapping memory, const RegionKey& region_key)
      : exports(std::move(table)), mapping(std::move(memory)), key(region_key) {}
  ~ExportedBacking() override { exports->remove(key); }

  std::shared_ptr<Exports> exports;
  Mapping mapping;
  RegionKey key;
};

Result<Region> make_exported_region(const std::shared_ptr<Exports>& exports, uint64_t bytes,
                                    Access access, uint64_t channel);
// Of memory that has been taken.
Region export_memory(const std::shared_ptr<Exports>& exports, Mapping memory, uint64_t bytes,
                     Access access, uint64_t channel);

}  // namespace farpage::tcp
