#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace farpage {

// A part of a process's memory that was mapped as one.
struct MappedArea {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  bool may_read = false;
  bool may_write = false;
  bool is_shared = false;
  uint64_t offset = 0;  // of the file behind it
  uint64_t device = 0;  // 0 with inode 0: there is no file
  uint64_t inode = 0;
  std::string path;
};

// The areas of this process, or of a text like /proc/PID/maps. The kernel answers for one area in a
// few microseconds (Linux 6.11); elsewhere all of the text is read.
class MappedAreas {
 public:
  MappedAreas();
  explicit MappedAreas(std::string text);

  // False: nothing tells of them, because there is no /proc.
  bool are_known() const { return are_known_; }
  // The one that holds an address, which rises from call to call; nothing: none does.
  std::optional<MappedArea> at(uintptr_t address);

 private:
  std::optional<MappedArea> in_text(uintptr_t address);

  UniqueFd maps_;  // of the kernel that answers
  bool are_known_ = true;
  std::string text_;  // of any other
  std::string_view left_;
};

}  // namespace farpage
