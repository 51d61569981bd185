#include "client/runner/fence.h"

#include <fmt/format.h>

#include <algorithm>

namespace farpage {
namespace {

constexpr size_t kBits = 32;

farpage_fence_words& words_of(std::span<std::byte> memory) {
  return *reinterpret_cast<farpage_fence_words*>(memory.data());
}

}  // namespace

Fence::Fence(std::span<std::byte> memory, uint32_t most_pages)
    : begun_(words_of(memory).begun),
      decided_(words_of(memory).decided),
      pages_(words_of(memory).pages),
      bits_(reinterpret_cast<uint32_t*>(&words_of(memory) + 1), words_for(most_pages)),
      most_pages_(most_pages) {}

Result<void> Fence::begin(size_t pages) {
  const std::lock_guard lock(mutex_);
  if (is_under_way()) {
    return fail(Code::kInvalid,
                "the last fetch with this fence is under way: wait for its ticket, or use another "
                "fence");
  }
  if (pages > most_pages_) {
    clear_bits();
    return fail(Code::kInvalid,
                fmt::format("a fetch of {} pages, and its fence is for {}: make one "
                            "for as many",
                            pages, most_pages_));
  }
  begun_.store(begun() + 1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // first: a reader of the bits waits again
  clear_bits();
  pages_.store(pages, std::memory_order_relaxed);
  return {};
}

void Fence::decide(std::span<const PageVerdict> verdicts) {
  for (size_t first = 0; first < verdicts.size(); first += kBits) {
    uint32_t word = 0;
    for (size_t page = first; page < std::min(first + kBits, verdicts.size()); ++page) {
      word |= uint32_t{verdicts[page].verdict == Verdict::kReady} << (page - first);
    }
    std::atomic_ref(bits_[first / kBits]).store(word, std::memory_order_relaxed);
  }
  decided_.store(begun(), std::memory_order_release);  // last: the next one may begin
}

bool Fence::clear() {
  const std::lock_guard lock(mutex_);
  if (is_under_way()) return false;
  clear_bits();
  return true;
}

// Only the last operation has set any.
void Fence::clear_bits() {
  const uint64_t words = words_for(pages_.load(std::memory_order_relaxed));
  for (uint32_t& word : bits_.first(words)) {
    std::atomic_ref(word).store(0, std::memory_order_relaxed);
  }
}

}  // namespace farpage
