#include "base/memory/shared_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <utility>

#include "base/memory/mapped_areas.h"

namespace farpage {
namespace {

struct Found {
  FilePlace place;
  std::string path;
};

std::optional<Found> find(MappedAreas& areas, uintptr_t begin, uint64_t bytes) {
  std::optional<Found> found;
  for (uintptr_t at = begin; at - begin < bytes;) {
    const std::optional<MappedArea> area = areas.at(at);
    if (!area || !area->is_shared || area->inode == 0) return std::nullopt;
    const FilePlace place = {area->device, area->inode, area->offset + (at - area->begin)};
    if (!found) found = {place, area->path};
    // The kernel cuts an area in two where a part of it was advised on, or locked.
    FilePlace expected = found->place;
    expected.offset += at - begin;
    if (place != expected) return std::nullopt;
    at = area->end;
  }
  return found;
}

bool is_at(int file, const FilePlace& place) {
  struct stat status;
  return ::fstat(file, &status) == 0 && status.st_dev == place.device &&
         status.st_ino == place.inode;
}

// `path` may lead to another file by now.
UniqueFd open_file(const std::string& path, const FilePlace& place) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid() || !is_file_in_memory(file.get()) || !is_at(file.get(), place)) return {};
  return file;
}

// A file without a path, as a memfd and one that was unlinked, is opened by a descriptor of it.
UniqueFd open_by_descriptor(const FilePlace& place) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int number = -1;
    const std::string name = entry.path().filename();
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (number < 0 || !is_file_in_memory(number) || !is_at(number, place)) continue;
    UniqueFd file = open_file(entry.path(), place);
    if (file.valid()) return file;
  }
  return {};
}

}  // namespace

// The question for seals goes to no file system, and only files in memory answer it; those of huge
// pages do, too.
bool is_file_in_memory(int file) {
  if (::fcntl(file, F_GET_SEALS) < 0) return false;
  struct statfs kind;
  struct stat status;
  return ::fstatfs(file, &kind) == 0 && kind.f_type == TMPFS_MAGIC && ::fstat(file, &status) == 0 &&
         S_ISREG(status.st_mode);
}

std::optional<FilePlace> file_place_in(std::string_view maps, uintptr_t begin, uint64_t bytes) {
  MappedAreas areas{std::string(maps)};
  const auto found = find(areas, begin, bytes);
  return found ? std::optional(found->place) : std::nullopt;
}

std::optional<SharedFile> shared_file_of(const void* data, uint64_t bytes) {
  MappedAreas areas;
  const auto found = find(areas, reinterpret_cast<uintptr_t>(data), bytes);
  if (!found) return std::nullopt;
  UniqueFd file;
  if (found->path.starts_with("/dev/shm/")) file = open_file(found->path, found->place);
  if (!file.valid()) file = open_by_descriptor(found->place);
  if (!file.valid()) return std::nullopt;
  return SharedFile{std::move(file), found->place.offset};
}

}  // namespace farpage
