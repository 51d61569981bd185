#include "transport/tcp/exports.h"

#include <thread>

#include "transport/peer_memory.h"

namespace farpage::tcp {

Exports::User& Exports::add_user() {
  std::lock_guard lock(mutex_);
  return users_.emplace_back();
}

std::optional<Exports::Entry> Exports::Use::find(const RegionKey& key) const {
  std::lock_guard lock(exports_.mutex_);
  if (key.index >= exports_.entries_.size()) return std::nullopt;
  const Entry& entry = exports_.entries_[key.index];
  if (entry.data == nullptr || entry.generation != key.generation) return std::nullopt;
  return entry;
}

RegionKey Exports::add(std::byte* data, uint64_t bytes, Access access, uint64_t channel) {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(entries_.size()));
    entries_.emplace_back();
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  entries_[index] = {data, bytes, access, channel, ++last_generation_};
  return {index, last_generation_};
}

void Exports::remove(const RegionKey& key) {
  {
    std::lock_guard lock(mutex_);
    entries_[key.index] = {};
    free_.push_back(key.index);
  }
  wait_for_uses();
}

// A Use that begins later looks later, and finds what has been changed before this was called.
void Exports::wait_for_uses() {
  std::vector<User*> users;
  {
    std::lock_guard lock(mutex_);
    for (User& user : users_) users.push_back(&user);
  }
  for (const User* user : users) {
    const uint64_t count = user->count.load();
    while (count % 2 == 1 && user->count.load() == count) std::this_thread::yield();
  }
}

Result<Region> make_exported_region(const std::shared_ptr<Exports>& exports, uint64_t bytes,
                                    Access access, uint64_t channel) {
  auto mapping = take_peer_memory(bytes, access, /*pinned=*/false);
  if (!mapping) return tl::unexpected(mapping.error());
  return export_memory(exports, std::move(*mapping), bytes, access, channel);
}

Region export_memory(const std::shared_ptr<Exports>& exports, Mapping memory, uint64_t bytes,
                     Access access, uint64_t channel) {
  std::byte* data = memory.data();
  const RegionKey key = exports->add(data, bytes, access, channel);
  return Region({data, bytes, MemoryKind::kHost, -1}, access, 0,
                std::make_unique<ExportedBacking>(exports, std::move(memory), key));
}

}  // namespace farpage::tcp
