#include "client/runner/fence.h"

#include <fmt/format.h>

#include <algorithm>

namespace farpage {
namespace {

farpage_fence_words& words_of(std::span<std::byte> memory) {
  return *reinterpret_cast<farpage_fence_words*>(memory.data());
}

}  // namespace

Fence::Fence(std::span<std::byte> memory, uint32_t most_pages)
    : begun_(words_of(memory).begun),
      decided_(words_of(memory).decided),
      pages_(words_of(memory).pages),
      bits_(reinterpret_cast<uint32_t*>(&words_of(memory) + 1), (uint64_t{most_pages} + 31) / 32),
      most_pages_(most_pages) {}

Result<void> Fence::begin(size_t pages) {
  if (is_under_way_.exchange(true)) {
    return fail(Code::kInvalid,
                "the last fetch with this fence is under way: wait for its ticket, or use another "
                "fence");
  }
  if (pages > most_pages_) {
    clear_bits();
    is_under_way_.store(false);
    return fail(Code::kInvalid, fmt::format("a fetch of {} pages, and its fence is for {}: make one "
                                            "for as many",
                                            pages, most_pages_));
  }
  begun_.store(begun() + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // first: a reader of the bits waits again
  pages_.store(pages, std::memory_order_relaxed);
  clear_bits();
  return {};
}

void Fence::decide(std::span<const PageVerdict> verdicts) {
  for (size_t page = 0; page < verdicts.size(); ++page) {
    if (verdicts[page].verdict != Verdict::kReady) continue;
    std::atomic_ref(bits_[page / 32]).fetch_or(uint32_t{1} << page % 32, std::memory_order_relaxed);
  }
  decided_.store(begun(), std::memory_order_release);
  is_under_way_.store(false);
}

bool Fence::clear() {
  if (is_under_way_.exchange(true)) return false;
  clear_bits();
  is_under_way_.store(false);
  return true;
}

void Fence::clear_bits() {
  for (uint32_t& word : bits_) std::atomic_ref(word).store(0, std::memory_order_relaxed);
}

}  // namespace farpage
