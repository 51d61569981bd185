#pragma once

#include <cstdint>

#include "base/status.h"
#include "transport/cuda/driver.h"
#include "transport/cuda/kernels/page_batch.h"

namespace farpage::cuda {

// What one kernel takes: `count` items in memory that the device reads, of payloads that are at
// most `longest_bytes` long, and where they and their findings go.
struct PageBatch {
  uint64_t items = 0;  // PageItem[count], at the device's address
  uint32_t count = 0;
  uint32_t longest_bytes = 0;
  PagedLayout layout;
  PageFindings out;
};

// How the check that is fused with the scatter works.
enum class FusedKernel {
  kThroughShared,  // a page is read once, into shared memory, by bulk copies
  kReadTwice,      // from global memory
};

struct DeviceFacts {
  int compute_major = 0;
  uint32_t shared_bytes = 0;  // the most that a block may have
};

// Through shared memory from compute capability 9.0 on, if the pages fit.
FusedKernel choose_fused_kernel(const DeviceFacts& device, uint32_t longest_bytes);

// Whether this build has them.
bool has_page_kernels();

// The kernels of this build, loaded for a device. Calls put work on a stream and do not wait for
// it; the batch's memory stays until the stream has come past. Every call needs the device's
// context current on its thread; any thread, once loaded.
class PageKernels {
 public:
  // Into the current context. It fails with a sentence where the build has no kernels, or the
  // driver takes none of them.
  static Result<PageKernels> load(const Driver& driver, int device);
  void unload();  // before the context goes, once no stream uses them

  const DeviceFacts& device() const { return device_; }

  // CRC-32C of each payload. Payloads begin at multiples of 4 bytes, and have any length.
  Result<void> crcs(Stream stream, const PageBatch& batch) const;
  // Judges each page as check_header() and the payload's CRC do, and writes only good ones to the
  // layout. Addresses and lengths are multiples of 16 bytes; the layout has longest_bytes a page.
  Result<void> check_and_scatter(Stream stream, const PageBatch& batch) const;
  // The same, by the one that is named. kThroughShared: only where it may be chosen.
  Result<void> check_and_scatter(FusedKernel kernel, Stream stream, const PageBatch& batch) const;
  // Writes the pieces of each page's block to its payload, and says so. Addresses and lengths as
  // above. With a CUresult.
  int gather(Stream stream, const PageBatch& batch) const;
  // Behind it on the stream, work waits until every operation that was begun with the fence has its
  // verdicts; `fence`: of farpage_fence_words. Begun, that is, when the stream comes to it.
  Result<void> wait_at_fence(Stream stream, uint64_t fence) const;

 private:
  Result<void> start(Function function, const char* name, unsigned blocks, unsigned shared_bytes,
                     Stream stream, void** parameters) const;
  int launch(Function function, unsigned blocks, unsigned shared_bytes, Stream stream,
             void** parameters) const;

  Driver driver_;
  Module module_ = nullptr;
  DeviceFacts device_;
  Function crcs_ = nullptr;
  Function through_shared_ = nullptr;  // null: the device has no bulk copies
  Function read_twice_ = nullptr;
  Function gather_ = nullptr;
  Function wait_at_fence_ = nullptr;
};

}  // namespace farpage::cuda
