#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "integrity/page_header.h"
#include "tests/transport/cuda/fake/fake_fixture.h"
#include "transport/cuda/page_kernels.h"

namespace farpage {

// A batch of pages on the fake's device, a page a slot of 64 KiB and a header, and an engine's
// layout of pieces that are as long as a quarter of a page. All of it in pinned memory too, so that
// tests see it.
class StagedPages : public FakeDriverTest {
 protected:
  static constexpr uint32_t kPages = 40;
  static constexpr uint32_t kPageBytes = 16 * 1024;
  static constexpr uint32_t kPieces = 4;
  static constexpr uint32_t kPieceBytes = kPageBytes / kPieces;
  static constexpr uint64_t kIncarnation = 0x1122334455667788;
  static constexpr uint64_t kSlotBytes = sizeof(PageHeader) + kPageBytes;

  // Where all of it lies, in the device's memory and in the pinned one.
  static constexpr uint64_t kSlots = 0;
  static constexpr uint64_t kItems = kSlots + kPages * kSlotBytes;
  static constexpr uint64_t kBases = kItems + kPages * sizeof(cuda::PageItem);
  static constexpr uint64_t kFindings = kBases + kPieces * sizeof(uint64_t);
  static constexpr uint64_t kBitmap = kFindings + kPages;
  static constexpr uint64_t kEngine = (kBitmap + (kPages + 31) / 32 * 4 + 15) / 16 * 16;
  static constexpr uint64_t kAllBytes = kEngine + uint64_t{kPages} * kPageBytes;

  void stage();    // good pages, their items and a destination of 0xEE
  void unstage();  // gives the memory back
  std::byte* payload(uint32_t page) {
    return host_ + kSlots + page * kSlotBytes + sizeof(PageHeader);
  }
  PageHeader& header(uint32_t page) {
    return *reinterpret_cast<PageHeader*>(host_ + kSlots + page * kSlotBytes);
  }
  cuda::PageItem& item(uint32_t page) {
    return reinterpret_cast<cuda::PageItem*>(host_ + kItems)[page];
  }
  // Pages go to blocks in reverse. Piece p of block b lies at p * kPages * kPieceBytes + b *
  // kPieceBytes.
  const std::byte* piece(uint32_t page, uint32_t piece) const {
    return host_ + kEngine + (uint64_t{piece} * kPages + (kPages - 1 - page)) * kPieceBytes;
  }
  bool is_good(uint32_t page) const;
  // Whether the destination has the page; and whether it is as it was before.
  bool landed(uint32_t page);
  bool is_untouched(uint32_t page) const;
  cuda::PageBatch batch() const;
  // To the device, the kernel, and back.
  void check_and_scatter(const cuda::PageKernels& kernels, cuda::FusedKernel kernel);

  std::byte* host_ = nullptr;
  uint64_t device_ = 0;
  cuda::Stream stream_ = nullptr;
};

}  // namespace farpage
