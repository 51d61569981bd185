#include "base/memory/protection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace farpage {
namespace {

struct Area {
  uintptr_t end = 0;
  bool may_read = false;
  bool may_write = false;
};

// `area_at` finds the area that holds an address; nothing: none does.
template <typename Find>
Result<Protection> protection_by(uintptr_t begin, uint64_t bytes, Find&& area_at) {
  Protection protection = Protection::kReadWrite;
  for (uintptr_t at = begin; at - begin < bytes;) {
    const std::optional<Area> area = area_at(at);
    if (!area || !area->may_read) {
      return fail(Code::kInvalid,
                  fmt::format("of the {} bytes at {:#x}, those at {:#x} are not mapped, or may not "
                              "be read: register memory that stays mapped until its region ends",
                              bytes, begin, at));
    }
    if (!area->may_write) protection = Protection::kReadOnly;
    at = area->end;
  }
  return protection;
}

// Lines as "7f00-7f20 rw-p ...", in rising order.
class Lines {
 public:
  explicit Lines(std::string_view maps) : left_(maps) {}

  // Addresses rise from call to call.
  std::optional<Area> area_at(uintptr_t at) {
    while (!left_.empty()) {
      const std::string_view line = left_.substr(0, left_.find('\n'));
      uintptr_t begin = 0;
      Area area;
      const char* const stop = line.data() + line.size();
      const auto first = std::from_chars(line.data(), stop, begin, 16);
      if (first.ptr == stop) return std::nullopt;
      const auto second = std::from_chars(first.ptr + 1, stop, area.end, 16);
      if (stop - second.ptr < 3) return std::nullopt;
      if (area.end > at) {
        if (begin > at) return std::nullopt;
        area.may_read = second.ptr[1] == 'r';
        area.may_write = second.ptr[2] == 'w';
        return area;
      }
      left_.remove_prefix(std::min(line.size() + 1, left_.size()));
    }
    return std::nullopt;
  }

 private:
  std::string_view left_;
};

// PROCMAP_QUERY of <linux/fs.h>, which older headers lack.
struct Query {
  uint64_t size = sizeof(Query);
  uint64_t flags = 0;  // the area that holds the address, or ENOENT
  uint64_t address = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t may = 0;  // 1: read, 2: write
  std::array<uint64_t, 7> unused = {};
};
static_assert(sizeof(Query) == 104);
constexpr unsigned long kQuery = _IOWR('f', 17, Query);

// Nothing: the kernel does not know the query.
std::optional<Result<Protection>> protection_by_query(int maps, uintptr_t begin, uint64_t bytes) {
  bool is_known = true;
  const auto area_at = [&](uintptr_t at) -> std::optional<Area> {
    Query query;
    query.address = at;
    if (::ioctl(maps, kQuery, &query) == 0) {
      return Area{query.end, (query.may & 1) != 0, (query.may & 2) != 0};
    }
    is_known = is_known && errno == ENOENT;
    return std::nullopt;
  };
  auto protection = protection_by(begin, bytes, area_at);
  if (!is_known) return std::nullopt;
  return protection;
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 16'384> part;
  for (ssize_t got = 0; (got = ::read(file, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

Result<Protection> protection_in(std::string_view maps, uintptr_t begin, uint64_t bytes) {
  Lines lines(maps);
  return protection_by(begin, bytes, [&](uintptr_t at) { return lines.area_at(at); });
}

Result<Protection> protection_of(const void* data, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const UniqueFd maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (!maps.valid()) return Protection::kReadWrite;
  if (auto answer = protection_by_query(maps.get(), begin, bytes)) return *answer;
  const std::string text = read_all(maps.get());
  if (text.empty()) return Protection::kReadWrite;
  return protection_in(text, begin, bytes);
}

}  // namespace farpage
