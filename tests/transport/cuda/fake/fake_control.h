#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/cuda/driver.h"

namespace farpage::cuda {

// What the fake's devices can do, and how its streams run. Before the first reset() the
// environment says it (programs/environment.h).
struct FakeSettings {
  int devices = 1;
  uint64_t device_bytes = uint64_t{1} << 30;
  int compute_major = 9;
  int shared_bytes = 232448;  // that a block may have
  int writes_ordering = 100;  // CUGPUDirectRDMAWritesOrdering: none 0, owner 100, all 200
  int flush_options = 0;      // CUflushGPUDirectRDMAWritesOptions: host 1, in streams 2
  bool dma_buf = true;
  bool vmm = true;
  bool stream_wait_values = true;
  bool read_only_registration = true;
  int most_host_ranges = 1 << 20;  // pinned or registered
  uint64_t seed = 1;      // decides which of the streams that could go on does, and each delay
  uint32_t delay_us = 0;  // the longest one before an operation
  // Of so many copies from the host to a device one brings a wrong byte; 0: none does.
  uint64_t spoil_every = 0;
  // Of so many pages that a kernel takes to blocks, or from there, it reads wrongly what it is to
  // do with one; 0: with none.
  uint64_t spoil_items_every = 0;
  // Of so many copies from the host to a device, and records of events, the driver refuses one,
  // which does nothing; 0: none.
  uint64_t refuse_every = 0;
};

// What lives in the driver.
struct FakeCounts {
  int contexts = 0;  // that are retained
  int modules = 0;
  int streams = 0;  // without those that were destroyed
  int events = 0;
  int device_ranges = 0;  // of cuMemAlloc, cuMemCreate and cuMemAddressReserve
  int host_ranges = 0;    // pinned or registered
  int operations = 0;     // on streams, not over
  bool operator==(const FakeCounts&) const = default;
};

enum class NicWrite {
  kHeldBack,  // device work sees it after a flush
  kOvertakes  // it is seen at once, before those that are held back: a counter, at worst
};

// A descriptor of cuMemGetHandleForAddressRange.
struct FakeHandle {
  bool is_dma_buf = false;  // of /dev/udmabuf; otherwise the memfd itself, for want of that
  uint64_t offset = 0;      // of the range in it
  uint64_t bytes = 0;
};

// The strings of the fake, from farpage_fake_cuda(). Any thread.
struct FakeControl {
  // A driver that nobody has called yet. Work that is under way is dropped.
  void (*reset)(const FakeSettings& settings);
  FakeCounts (*live)();
  // The nth call from now on (1: the next) of the function fails with this result, and does
  // nothing.
  void (*fail_call)(const char* function, int nth, int result);
  // How often the function was called, or the kernel launched.
  uint64_t (*calls)(const char* function);
  // As if work on the device had failed: every later call in the context fails with this result.
  void (*break_context)(Context context, int result);
  // A stream that is held starts nothing; null: all of them, and those that are still to come, but
  // for those that are released by themselves later.
  void (*hold)(Stream stream);
  void (*release)(Stream stream);
  // Bytes as a NIC writes them. It returns a CUresult: there must be memory.
  int (*nic_write)(uint64_t address, const void* bytes, size_t count, NicWrite how);
  // What device work sees there now.
  int (*peek)(uint64_t address, void* bytes, size_t count);
  // Of a descriptor that the driver has given.
  bool (*describe_handle)(int descriptor, FakeHandle* handle);
  // How often callers broke a rule, and a sentence on the last time.
  int (*broken_rules)(const char** last);
};

extern "C" __attribute__((visibility("default"))) const FakeControl* farpage_fake_cuda();

}  // namespace farpage::cuda
