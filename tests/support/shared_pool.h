#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace farpage {

// An engine's pool of pages: a file in /dev/shm that is mapped from `offset` on, and, as an engine
// does once all its processes have it, unlinked.
class SharedPool {
 public:
  enum class Name : uint8_t { kUnlinked, kKept };

  explicit SharedPool(uint64_t bytes, uint64_t offset = 0, Name name = Name::kUnlinked)
      : bytes_(bytes), offset_(offset), name_(name) {
    static int made = 0;
    path_ = "/dev/shm/farpage_test_" + std::to_string(::getpid()) + "_" + std::to_string(made++);
    file_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    EXPECT_TRUE(file_.valid());
    resize(offset + bytes);
    data_ = static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                           file_.get(), static_cast<off_t>(offset)));
    EXPECT_NE(data_, MAP_FAILED);
    if (name == Name::kUnlinked) ::unlink(path_.c_str());
  }
  ~SharedPool() {
    ::munmap(data_, bytes_);
    if (name_ == Name::kKept) ::unlink(path_.c_str());
  }
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t offset() const { return offset_; }
  int file() const { return file_.get(); }
  const std::string& path() const { return path_; }

  void resize(uint64_t file_bytes) {
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(file_bytes)), 0);
  }
  void close() { file_.reset(); }

 private:
  const uint64_t bytes_;
  const uint64_t offset_;
  const Name name_;
  std::string path_;
  UniqueFd file_;
  std::byte* data_ = nullptr;
};

}  // namespace farpage
