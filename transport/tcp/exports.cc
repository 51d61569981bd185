#include "transport/tcp/exports.h"

#include <bit>
#include <thread>

#include "transport/peer_memory.h"

namespace farpage::tcp {

Exports::User& Exports::add_user() {
  std::lock_guard lock(mutex_);
  return users_.emplace_back();
}

Exports::~Exports() {
  for (std::atomic<Slot*>& block : blocks_) delete[] block.load(std::memory_order_relaxed);
}

Exports::Place Exports::place(uint32_t index) {
  const uint64_t from_first = index + kFirstBlock;
  const auto block = static_cast<size_t>(std::bit_width(from_first / kFirstBlock)) - 1;
  return {block, from_first - (kFirstBlock << block)};
}

std::optional<Exports::Entry> Exports::Use::find(const RegionKey& key) const {
  const Place at = place(key.index);
  const Slot* slots = exports_.blocks_[at.block].load(std::memory_order_acquire);
  if (slots == nullptr || key.generation == 0) return std::nullopt;
  const Slot& slot = slots[at.slot];
  // Sequentially consistent for remove(); it acquires what add() wrote into the entry.
  if (slot.generation.load(std::memory_order_seq_cst) != key.generation) return std::nullopt;
  return slot.entry;
}

RegionKey Exports::add(const Entry& entry) {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    const Place at = place(slots_);
    if (at.slot == 0) {
      blocks_[at.block].store(new Slot[kFirstBlock << at.block], std::memory_order_release);
    }
    free_.push_back(slots_++);
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  const Place at = place(index);
  Slot& slot = blocks_[at.block].load(std::memory_order_relaxed)[at.slot];
  slot.entry = entry;
  if (++last_generation_ == 0) ++last_generation_;
  slot.generation.store(last_generation_, std::memory_order_release);
  return {index, last_generation_};
}

// A reader counts first and loads the generation then; this stores the generation first and loads
// the counts then. All four are sequentially consistent, so at least one of the two sees the other:
// either the look finds nothing, or its count is seen to be odd and is waited for. (With acquire
// and release alone, both loads could pass the stores before them, and neither would.) The count's
// next step, by which the Use ends, releases what it did with the memory, and the load that sees it
// acquires that: freeing the memory, and writing the slot anew, come after.
void Exports::remove(const RegionKey& key) {
  const Place at = place(key.index);
  Slot& slot = blocks_[at.block].load(std::memory_order_acquire)[at.slot];
  slot.generation.store(0, std::memory_order_seq_cst);
  wait_for_uses();
  std::lock_guard lock(mutex_);
  free_.push_back(key.index);
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

Region export_readable(const std::shared_ptr<Exports>& exports, Mapping memory, UniqueFd file,
                       uint64_t bytes) {
  std::byte* data = memory.data();
  const RegionKey key = exports->add({data, bytes, Access::kRemoteRead, 0, file.get()});
  return Region(
      {data, bytes}, Access::kRemoteRead, 0,
      std::make_unique<ExportedBacking>(exports, std::move(memory), std::move(file), key));
}

Result<Region> make_writable(const std::shared_ptr<Exports>& exports, uint64_t bytes,
                             uint64_t channel) {
  auto memory = take_peer_memory(bytes, Access::kRemoteWrite, /*pinned=*/false);
  if (!memory) return tl::unexpected(memory.error());
  std::byte* data = memory->data();
  const RegionKey key = exports->add({data, bytes, Access::kRemoteWrite, channel});
  return Region({data, bytes}, Access::kRemoteWrite, 0,
                std::make_unique<ExportedBacking>(exports, std::move(*memory), UniqueFd(), key));
}

}  // namespace farpage::tcp
