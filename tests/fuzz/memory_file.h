#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/unique_fd.h"

namespace farpage {

// For what reads files by their path.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t bytes) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
    FARPAGE_CHECK(::write(fd_.get(), data, bytes) == static_cast<ssize_t>(bytes));
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  UniqueFd fd_;
};

}  // namespace farpage
