#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/mapping.h"
#include "base/status.h"
#include "transport/cuda/gpu_context.h"

namespace farpage::cuda {

// Blocks of an engine's paged memory on a device. A page is a block, and lies there in pieces, in
// the order of its bytes: layers, keys and values. Piece i of block b lies at
// pieces[i] + b * block_stride.
struct GpuBlocks {
  std::span<const uint64_t> pieces;
  uint64_t piece_bytes = 0;
  uint64_t block_stride = 0;  // of one block alone: any
  uint64_t count = 0;
};

// Such memory, whose owner keeps it. Pages name its blocks by addresses of its own, block behind
// block, at which nothing lies. Any thread.
class PagedMemory {
 public:
  static constexpr size_t kMostPieces = 4'096;

  // kInvalid, with a sentence: pieces that overlap, or that are not one device's memory, whole
  // (context_of_memory()); numbers that make no blocks.
  static Result<std::unique_ptr<PagedMemory>> make(const Driver& driver, const GpuBlocks& blocks);

  const std::shared_ptr<const GpuContext>& context() const { return context_; }
  std::byte* data() const { return addresses_.data(); }
  uint64_t bytes() const { return addresses_.bytes(); }
  uint64_t block_bytes() const { return piece_bytes_ * pieces_.size(); }

  std::span<const uint64_t> pieces() const { return pieces_; }  // of block 0
  uint64_t piece_bytes() const { return piece_bytes_; }
  uint64_t block_stride() const { return block_stride_; }
  // Of block 0, in the order of its bytes: pieces that lie side by side between two blocks, and so
  // in one allocation, are one run.
  struct Run {
    uint64_t address = 0;
    uint64_t bytes = 0;
  };
  std::span<const Run> runs() const { return runs_; }

  // Whether these bytes of the addresses are one block, and which.
  bool is_block(const std::byte* at, uint64_t bytes) const {
    return bytes == block_bytes() && offset(at) % block_bytes() == 0;
  }
  uint64_t block(const std::byte* at) const { return offset(at) / block_bytes(); }

 private:
  PagedMemory(std::shared_ptr<const GpuContext> context, const GpuBlocks& blocks,
              Mapping addresses);
  uint64_t offset(const std::byte* at) const { return static_cast<uint64_t>(at - data()); }

  const std::shared_ptr<const GpuContext> context_;
  const std::vector<uint64_t> pieces_;
  const uint64_t piece_bytes_;
  const uint64_t block_stride_;
  const std::vector<Run> runs_;
  const Mapping addresses_;
};

}  // namespace farpage::cuda
