#include "transport/cuda/memory/paged_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "transport/cuda/memory/device_memory.h"

namespace farpage::cuda {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 46;  // of addresses: a process has 2^47

auto refuse(std::string sentence) {
  return fail(Code::kInvalid, std::move(sentence));
}

std::vector<PagedMemory::Run> runs_of(const GpuBlocks& blocks) {
  const bool may_lie_between = blocks.count > 1 && blocks.block_stride > blocks.piece_bytes;
  std::vector<PagedMemory::Run> runs;
  for (const uint64_t piece : blocks.pieces) {
    if (may_lie_between && !runs.empty() && runs.back().address + runs.back().bytes == piece) {
      runs.back().bytes += blocks.piece_bytes;
    } else {
      runs.push_back({piece, blocks.piece_bytes});
    }
  }
  return runs;
}

Result<void> check_numbers(const GpuBlocks& blocks) {
  const size_t pieces = blocks.pieces.size();
  if (pieces == 0 || pieces > PagedMemory::kMostPieces) {
    return refuse(fmt::format("blocks of {} pieces: give the addresses of 1 to {} pieces", pieces,
                              PagedMemory::kMostPieces));
  }
  if (blocks.piece_bytes == 0 || blocks.count == 0) {
    return refuse(fmt::format("{} blocks whose pieces have {} bytes are no memory", blocks.count,
                              blocks.piece_bytes));
  }
  const bool fits = blocks.piece_bytes <= kMostBytes / pieces &&
                    blocks.count <= kMostBytes / pieces / blocks.piece_bytes;
  const bool ends = blocks.block_stride <= kMostBytes / blocks.count;
  if (!fits || !ends) {
    return refuse(
        fmt::format("{} blocks of {} pieces of {} bytes, {} bytes apart, are more than "
                    "a GPU has: check the numbers, which are bytes",
                    blocks.count, pieces, blocks.piece_bytes, blocks.block_stride));
  }
  if (blocks.count > 1 && blocks.block_stride < blocks.piece_bytes) {
    return refuse(
        fmt::format("blocks are {} bytes apart, and a piece has {}: each piece would "
                    "overlap that of the next block",
                    blocks.block_stride, blocks.piece_bytes));
  }
  return {};
}

// Whether some block of the one has bytes of some block of the other, which begins `apart` bytes
// behind it.
bool overlap(const GpuBlocks& blocks, uint64_t apart) {
  if (apart < blocks.piece_bytes) return true;
  if (blocks.count == 1) return false;
  // Of the one's blocks that begin before the other's block 0, the last; and the next behind it.
  const uint64_t before = std::min(apart / blocks.block_stride, blocks.count - 1);
  const uint64_t behind = apart - before * blocks.block_stride;
  if (behind < blocks.piece_bytes) return true;
  return before + 1 < blocks.count && blocks.block_stride - behind < blocks.piece_bytes;
}

// From the first to the last byte of a piece in all blocks.
uint64_t span_of(const GpuBlocks& blocks) {
  return (blocks.count - 1) * blocks.block_stride + blocks.piece_bytes;
}

struct Piece {
  uint64_t address = 0;
  size_t number = 0;
};

// By address.
std::vector<Piece> sorted_pieces(const GpuBlocks& blocks) {
  std::vector<Piece> sorted;
  for (size_t i = 0; i < blocks.pieces.size(); ++i) sorted.push_back({blocks.pieces[i], i});
  std::ranges::sort(sorted, {}, &Piece::address);
  return sorted;
}

// Every pair is looked at as long as their blocks may meet.
Result<void> require_apart(const GpuBlocks& blocks, std::span<const Piece> sorted) {
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t j = i + 1; j < sorted.size(); ++j) {
      const uint64_t apart = sorted[j].address - sorted[i].address;
      if (apart >= span_of(blocks)) break;
      if (!overlap(blocks, apart)) continue;
      const auto [first, second] = std::minmax(sorted[i].number, sorted[j].number);
      return refuse(
          fmt::format("pieces {} and {} of the blocks overlap: each byte is of one piece "
                      "of one block",
                      first, second));
    }
  }
  return {};
}

// Of all pieces of all blocks. The driver is asked once for memory that several pieces share.
Result<std::shared_ptr<const GpuContext>> find_context(const Driver& driver,
                                                       const GpuBlocks& blocks,
                                                       std::span<const Piece> sorted) {
  std::shared_ptr<const GpuContext> first;
  for (size_t i = 0; i < sorted.size();) {
    const uint64_t begin = sorted[i].address;
    if (begin > UINT64_MAX - span_of(blocks)) return refuse("the blocks' addresses are no memory");
    uint64_t end = begin;
    while (i < sorted.size() && (sorted[i].address < end || end == begin) &&
           sorted[i].address <= UINT64_MAX - span_of(blocks)) {
      end = sorted[i++].address + span_of(blocks);
    }
    auto context = context_of_memory(driver, begin, end - begin);
    if (!context) return context;
    if (first == nullptr) first = *context;
    if ((*context)->device() != first->device()) {
      return refuse(
          fmt::format("pieces of the blocks are memory of cuda:{} and of cuda:{}: "
                      "register each GPU's blocks by themselves",
                      first->device(), (*context)->device()));
    }
  }
  return first;
}

}  // namespace

Result<std::unique_ptr<PagedMemory>> PagedMemory::make(const Driver& driver,
                                                       const GpuBlocks& given) {
  GpuBlocks blocks = given;
  if (blocks.count == 1) blocks.block_stride = blocks.piece_bytes;
  if (auto valid = check_numbers(blocks); !valid) return tl::unexpected(valid.error());
  const std::vector<Piece> sorted = sorted_pieces(blocks);
  if (auto apart = require_apart(blocks, sorted); !apart) return tl::unexpected(apart.error());
  auto context = find_context(driver, blocks, sorted);
  if (!context) return tl::unexpected(context.error());
  auto addresses = Mapping::addresses(blocks.pieces.size() * blocks.piece_bytes * blocks.count);
  if (!addresses) return tl::unexpected(addresses.error());
  return std::unique_ptr<PagedMemory>(
      new PagedMemory(std::move(*context), blocks, std::move(*addresses)));
}

PagedMemory::PagedMemory(std::shared_ptr<const GpuContext> context, const GpuBlocks& blocks,
                         Mapping addresses)
    : context_(std::move(context)),
      pieces_(blocks.pieces.begin(), blocks.pieces.end()),
      piece_bytes_(blocks.piece_bytes),
      block_stride_(blocks.block_stride),
      runs_(runs_of(blocks)),
      addresses_(std::move(addresses)) {}

}  // namespace farpage::cuda
