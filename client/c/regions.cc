#include "client/c/regions.h"

#include <iterator>
#include <utility>

namespace farpage::c_api {
namespace {

bool holds(const farpage_region& region, uintptr_t begin, uint64_t bytes) {
  // Wraps around for an address before the region's.
  const uint64_t offset = begin - reinterpret_cast<uintptr_t>(region.memory.data());
  return offset <= region.memory.bytes() && bytes <= region.memory.bytes() - offset;
}

}  // namespace

const farpage_region* Regions::Reader::find(const void* data, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  if (last_ != nullptr && holds(*last_, begin, bytes)) return last_;
  const auto after = regions_.by_address_.upper_bound(begin);
  if (after == regions_.by_address_.begin()) return nullptr;
  const farpage_region* before = std::prev(after)->second.get();
  if (!holds(*before, begin, bytes)) return nullptr;
  last_ = before;
  return before;
}

bool Regions::add(std::unique_ptr<farpage_region>& region) {
  const uintptr_t begin = address(*region);
  const std::unique_lock lock(mutex_);
  const auto after = by_address_.lower_bound(begin);
  if (after != by_address_.end() && after->first - begin < region->memory.bytes()) return false;
  if (after != by_address_.begin() && holds(*std::prev(after)->second, begin, 1)) return false;
  by_address_.emplace_hint(after, begin, std::move(region));
  return true;
}

void Regions::clear() {
  const std::unique_lock lock(mutex_);
  by_address_.clear();
}

}  // namespace farpage::c_api
