#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/unique_fd.h"

namespace farpage {

// Where in a file some memory lies.
struct FilePlace {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t offset = 0;

  friend bool operator==(const FilePlace&, const FilePlace&) = default;
};

// The file that all of these bytes are shared mappings of, one after the other, by the text of
// /proc/PID/maps. Nothing: some of them are not, or they are of several files.
std::optional<FilePlace> file_place_in(std::string_view maps, uintptr_t begin, uint64_t bytes);

struct SharedFile {
  UniqueFd file;  // for reading alone
  uint64_t offset = 0;
};

// The file in memory (of tmpfs, as in /dev/shm, or a memfd) behind this memory of the process.
// Nothing: there is none, or neither its path nor a descriptor of the process leads to it. May look
// at every descriptor of it: for a pool, not for a page.
std::optional<SharedFile> shared_file_of(const void* data, uint64_t bytes);

// A regular file whose bytes are in memory, without huge pages of its own: nothing else can be
// waited for when it is read. Asks no other file system, which might not answer.
bool is_file_in_memory(int file);

}  // namespace farpage
