#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/memory/mapping.h"
#include "base/unique_fd.h"
#include "transport/memory.h"
#include "transport/tcp/wire.h"

namespace farpage::tcp {

// The memory of this process that peers may reach, by name. Each I/O thread marks with a Use that
// bytes move to or from a region; remove() waits for those under way, each no longer than one
// system call, so that no thread touches a region's memory afterwards. A reader never waits: a look
// takes no lock, and writes nothing that another thread does. Thread-safe.
class Exports {
 public:
  struct Entry {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    Access access = Access::kLocal;
    uint64_t channel = 0;  // kRemoteWrite: the one that may write
    int file = -1;         // kRemoteRead: the file behind `data`, from its start; -1: none
  };

  // One I/O thread. The count is odd while bytes move.
  struct alignas(64) User {
    std::atomic<uint64_t> count{0};
  };
  // Of the same lifetime as this.
  User& add_user();

  class Use {
   public:
    Use(const Exports& exports, User& user) : exports_(exports), user_(user) {
      user_.count.fetch_add(1);  // before any look at what may be gone: see remove()
    }
    ~Use() { user_.count.fetch_add(1); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    // Nothing: the key is not, or is no longer, that of a region. The found region stays while the
    // Use does.
    std::optional<Entry> find(const RegionKey& key) const;

   private:
    const Exports& exports_;
    User& user_;
  };

  ~Exports();
  RegionKey add(const Entry& entry);
  void remove(const RegionKey& key);
  // Returns once every Use that began before has ended.
  void wait_for_uses();

 private:
  // `entry` is written only while no Use can look at it: the generation is 0 then, and every Use
  // that may have seen the one before has ended.
  struct Slot {
    std::atomic<uint32_t> generation{0};  // 0: empty
    Entry entry;
  };
  // Slots stay where they are when there are more, for no one locks them: each block is twice as
  // large as the one before.
  static constexpr uint64_t kFirstBlock = 64;
  static constexpr size_t kBlocks = 27;
  struct Place {
    size_t block;
    uint64_t slot;
  };
  static Place place(uint32_t index);

  std::array<std::atomic<Slot*>, kBlocks> blocks_ = {};

  std::mutex mutex_;  // of what follows, and of adding blocks
  std::deque<User> users_;
  std::vector<uint32_t> free_;
  uint32_t slots_ = 0;
  uint32_t last_generation_ = 0;
};

// Memory behind an exported region.
struct ExportedBacking final : Region::Backing {
  ExportedBacking(std::shared_ptr<Exports> table, Mapping memory, UniqueFd memory_file,
                  const RegionKey& region_key)
      : exports(std::move(table)),
        mapping(std::move(memory)),
        file(std::move(memory_file)),
        key(region_key) {}
  ~ExportedBacking() override { exports->remove(key); }

  std::shared_ptr<Exports> exports;
  Mapping mapping;
  UniqueFd file;
  RegionKey key;
};

// Memory that every peer may read: a mapping of `file`.
Region export_readable(const std::shared_ptr<Exports>& exports, Mapping memory, UniqueFd file,
                       uint64_t bytes);
// New memory that one channel's peer may write.
Result<Region> make_writable(const std::shared_ptr<Exports>& exports, uint64_t bytes,
                             uint64_t channel);

}  // namespace farpage::tcp
