#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "transport/cuda/driver.h"

namespace farpage::cuda {

// A memfd: what stands for memory of a device.
class Physical {
 public:
  static std::shared_ptr<Physical> make(uint64_t bytes, int device);  // null: the host has none
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  int descriptor() const { return descriptor_; }
  uint64_t bytes() const { return bytes_; }
  int device() const { return device_; }

 private:
  Physical(int descriptor, uint64_t bytes, int device)
      : descriptor_(descriptor), bytes_(bytes), device_(device) {}
  int descriptor_;
  uint64_t bytes_;
  int device_;
};

// Addresses that nothing may touch, until something is mapped there; followed by a page of them.
class Reservation {
 public:
  explicit Reservation(uint64_t bytes, uint64_t alignment = 0);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  std::byte* at() const { return at_; }

 private:
  void* begin_;
  uint64_t all_bytes_;
  std::byte* at_;
};

struct Mapping {
  uint64_t bytes = 0;
  std::shared_ptr<Physical> physical;
  bool readable = false;
  bool writable = false;
};

enum class Kind { kDevice, kReserved, kPinned, kRegistered };

// One allocation, reservation or registration. Addresses of a device are not the host's: whoever
// follows one on the CPU gets SIGSEGV, and the fake reaches the bytes at `memory`.
struct Range {
  Kind kind = Kind::kDevice;
  Context context = nullptr;
  int device = 0;
  uint64_t base = 0;  // the device's address
  uint64_t bytes = 0;
  std::byte* memory = nullptr;  // of host memory: the host's address
  bool mapped_for_device = true;
  bool read_only = false;
  int users = 0;                         // operations on streams that are not over
  std::map<uint64_t, Mapping> mappings;  // by offset; of kDevice and kReserved
  std::unique_ptr<Reservation> addresses;
  std::unique_ptr<Reservation> reached;

  bool on_host() const { return kind == Kind::kPinned || kind == Kind::kRegistered; }
  bool map(uint64_t offset, Mapping mapping);
  void unmap(uint64_t offset);
  // Whether all of it is mapped, and can be accessed so.
  bool covers(uint64_t address, uint64_t count, bool to_write) const;
};

using Ranges = std::vector<std::shared_ptr<Range>>;

// The one that has `address`; null: none.
std::shared_ptr<Range> find_range(const Ranges& ranges, uint64_t address);
// The host memory that has all of it, by the host's address.
std::shared_ptr<Range> find_host_range(const Ranges& ranges, const void* memory, uint64_t count);

}  // namespace farpage::cuda
