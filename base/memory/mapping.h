#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace farpage {

enum class Protection : uint8_t { kReadOnly, kReadWrite };

// Owns a memory mapping, of a shared file or anonymous. Asks for huge pages; works without.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // `offset`: of the file, a multiple of the system's pages.
  static Result<Mapping> share(int fd, uint64_t bytes, Protection protection, uint64_t offset = 0);
  // Zeroed, private; memory is taken when it is first touched.
  static Result<Mapping> anonymous(uint64_t bytes);
  // Addresses that nothing else in this process has, and no memory: whoever touches them ends.
  static Result<Mapping> addresses(uint64_t bytes);

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  static Result<Mapping> map(int fd, uint64_t offset, uint64_t bytes, int protection, int flags);

  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace farpage
