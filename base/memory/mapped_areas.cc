#include "base/memory/mapped_areas.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

namespace farpage {
namespace {

// PROCMAP_QUERY of <linux/fs.h>, which older headers lack.
struct Query {
  uint64_t size = sizeof(Query);
  uint64_t flags = 0;  // the area that holds the address, or ENOENT
  uint64_t address = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t may = 0;  // 1: read, 2: write, 8: it is shared
  uint64_t page_bytes = 0;
  uint64_t offset = 0;
  uint64_t inode = 0;
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint32_t path_bytes = 0;  // that there is room for; then with the 0 at its end
  uint32_t build_id_bytes = 0;
  uint64_t path = 0;
  uint64_t build_id = 0;
};
static_assert(sizeof(Query) == 104);
constexpr unsigned long kQuery = _IOWR('f', 17, Query);
constexpr size_t kMostPathBytes = 4096;

// Nothing, and errno: it is ENOENT if the kernel knows the query.
std::optional<MappedArea> ask(int maps, uintptr_t address) {
  std::array<char, kMostPathBytes> path;
  Query query;
  query.address = address;
  query.path = reinterpret_cast<uintptr_t>(path.data());
  query.path_bytes = path.size();
  if (::ioctl(maps, kQuery, &query) != 0) return std::nullopt;
  MappedArea area;
  area.begin = query.begin;
  area.end = query.end;
  area.may_read = (query.may & 1) != 0;
  area.may_write = (query.may & 2) != 0;
  area.is_shared = (query.may & 8) != 0;
  area.offset = query.offset;
  area.device = makedev(query.device_major, query.device_minor);
  area.inode = query.inode;
  if (query.path_bytes > 0) area.path.assign(path.data(), query.path_bytes - 1);
  return area;
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 16'384> part;
  for (ssize_t got = 0; (got = ::read(file, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<size_t>(got));
  }
  return text;
}

// One line: "7f00-7f20 rw-s 00001000 00:1b 17    /dev/shm/pool".
class Line {
 public:
  explicit Line(std::string_view text) : left_(text) {}

  std::optional<MappedArea> area() {
    MappedArea area;
    area.begin = number(16);
    area.end = number(16);
    if (left_.size() < 5) return std::nullopt;
    area.may_read = left_[0] == 'r';
    area.may_write = left_[1] == 'w';
    area.is_shared = left_[3] == 's';
    skip(5);
    area.offset = number(16);
    const uint64_t major = number(16);
    const uint64_t minor = number(16);
    area.device = makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor));
    area.inode = number(10);
    skip(left_.find_first_not_of(' '));
    area.path = left_;
    return is_good_ ? std::optional(std::move(area)) : std::nullopt;
  }

 private:
  // And the character behind it.
  uint64_t number(int base) {
    uint64_t value = 0;
    const auto read = std::from_chars(left_.data(), left_.data() + left_.size(), value, base);
    is_good_ = is_good_ && read.ec == std::errc();
    skip(static_cast<size_t>(read.ptr - left_.data()) + 1);
    return value;
  }
  void skip(size_t count) { left_.remove_prefix(std::min(count, left_.size())); }

  std::string_view left_;
  bool is_good_ = true;
};

}  // namespace

MappedAreas::MappedAreas()
    : maps_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)), are_known_(maps_.valid()) {}

MappedAreas::MappedAreas(std::string text) : text_(std::move(text)), left_(text_) {}

std::optional<MappedArea> MappedAreas::at(uintptr_t address) {
  if (maps_.valid()) {
    auto area = ask(maps_.get(), address);
    if (area || errno == ENOENT) return area;
    text_ = read_all(maps_.get());
    left_ = text_;
    are_known_ = !text_.empty();
    maps_.reset();
  }
  return in_text(address);
}

std::optional<MappedArea> MappedAreas::in_text(uintptr_t address) {
  while (!left_.empty()) {
    const std::string_view line = left_.substr(0, left_.find('\n'));
    auto area = Line(line).area();
    if (!area) return std::nullopt;
    if (area->end > address) return area->begin <= address ? std::move(area) : std::nullopt;
    left_.remove_prefix(std::min(line.size() + 1, left_.size()));
  }
  return std::nullopt;
}

}  // namespace farpage
