#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/client/gpu/gpu_client.h"

namespace farpage {

// Where a test's blocks lie: two pieces side by side for each layer, as of keys and values.
struct BlockShape {
  uint64_t piece_bytes = kPageBytes / 4;
  uint64_t layers = 2;
  uint64_t gap_bytes = 512;  // behind the two
  uint64_t count = 24;

  uint64_t stride() const { return 2 * piece_bytes + gap_bytes; }
  uint64_t block_bytes() const { return 2 * layers * piece_bytes; }
};

// Blocks of paged memory on the fake's first device, and what device work sees in them.
class GpuBlocksClient : public GpuClient {
 protected:
  ~GpuBlocksClient() override { end(); }

  void end() {
    blocks_ = {};
    if (memory_ != 0) free_on_gpu_now();
    sources_.reset();
    tier_.reset();
  }

  // A client, pages 0 and on at its node, and blocks; page i has the key i.
  void open_with(const cuda::FakeSettings& settings, const OpenOptions& opened) {
    start(settings);
    tier_ = open(opened, wrap_);
    sources_.emplace(*tier_, kStored, uint8_t{1});
    put_all(*tier_, *sources_);
    allocate_blocks({});
    blocks_ = tier_->register_gpu_blocks(described()).value();
  }
  void open_with(const cuda::FakeSettings& settings) { open_with(settings, options()); }
  void allocate_blocks(const BlockShape& shape) {
    shape_ = shape;
    memory_ = allocate(shape.layers * shape.count * shape.stride());
    pieces_.clear();
    for (uint64_t layer = 0; layer < shape.layers; ++layer) {
      const uint64_t first = memory_ + layer * shape.count * shape.stride();
      pieces_.insert(pieces_.end(), {first, first + shape.piece_bytes});
    }
  }
  void free_on_gpu_now() {
    EXPECT_EQ(driver_.free(memory_), cuda::kSuccess);
    memory_ = 0;
  }
  cuda::GpuBlocks described() const {
    return {.pieces = pieces_,
            .piece_bytes = shape_.piece_bytes,
            .block_stride = shape_.stride(),
            .count = shape_.count};
  }

  Slice block(uint64_t number) const {
    return blocks_.slice(number * shape_.block_bytes(), shape_.block_bytes());
  }
  // Page i, into a block that lies far from that of page i + 1.
  uint64_t place(size_t page) const { return (page * 7 + 5) % shape_.count; }
  std::vector<PageRequest> requests(size_t pages, size_t first_key = 0) const {
    std::vector<PageRequest> made;
    for (size_t i = 0; i < pages; ++i) made.push_back({key(first_key + i), 0, block(place(i))});
    return made;
  }
  void wipe() const { GpuClient::wipe(memory_, shape_.layers * shape_.count * shape_.stride()); }
  std::vector<std::byte> block_on_gpu(uint64_t number) const {
    std::vector<std::byte> seen;
    for (const uint64_t piece : pieces_) {
      const auto part = on_gpu(piece + number * shape_.stride(), shape_.piece_bytes);
      seen.insert(seen.end(), part.begin(), part.end());
    }
    return seen;
  }
  bool is_untouched(uint64_t number) const {
    return std::ranges::all_of(block_on_gpu(number), [](std::byte b) { return b == kUntouched; });
  }
  bool has_source(uint64_t number, size_t page) const {
    return std::ranges::equal(block_on_gpu(number), sources_->page(page));
  }
  // Everything but the blocks of these pages is as it was: other blocks, and between pieces.
  bool are_others_untouched(size_t pages) const {
    std::vector<bool> taken(shape_.count);
    for (size_t i = 0; i < pages; ++i) taken[place(i)] = true;
    for (uint64_t number = 0; number < shape_.count; ++number) {
      if (!taken[number] && !is_untouched(number)) return false;
      for (size_t i = 1; i < pieces_.size(); i += 2) {
        const uint64_t gap = pieces_[i] + shape_.piece_bytes + number * shape_.stride();
        if (!is_filled_with(gap, kUntouched, shape_.gap_bytes)) return false;
      }
    }
    return true;
  }

  static constexpr size_t kStored = 24;
  Connection::WrapFabric wrap_ = {};  // of the client that is opened next
  BlockShape shape_;
  uint64_t memory_ = 0;
  std::vector<uint64_t> pieces_;
  Region blocks_;
  std::optional<Pages> sources_;
};

}  // namespace farpage
