#include "base/memory/protection.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/memory/mapped_areas.h"

namespace farpage {
namespace {

Result<Protection> protection_by(MappedAreas& areas, uintptr_t begin, uint64_t bytes) {
  Protection protection = Protection::kReadWrite;
  for (uintptr_t at = begin; at - begin < bytes;) {
    const std::optional<MappedArea> area = areas.at(at);
    if (!areas.are_known()) return Protection::kReadWrite;
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

}  // namespace

Result<Protection> protection_in(std::string_view maps, uintptr_t begin, uint64_t bytes) {
  MappedAreas areas{std::string(maps)};
  return protection_by(areas, begin, bytes);
}

Result<Protection> protection_of(const void* data, uint64_t bytes) {
  MappedAreas areas;
  return protection_by(areas, reinterpret_cast<uintptr_t>(data), bytes);
}

}  // namespace farpage
