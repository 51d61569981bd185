#include "client/destinations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/gpu/paged_region.h"

namespace farpage {
namespace {

uintptr_t begin_of(const Slice& slice) {
  return reinterpret_cast<uintptr_t>(slice.data);
}

// Those of no bytes only ask, and land nowhere.
bool rise(std::span<const PageRequest> requests) {
  uintptr_t end = 0;
  for (const PageRequest& request : requests) {
    const Slice& to = request.destination;
    if (to.bytes == 0) continue;
    if (begin_of(to) < end) return false;
    end = begin_of(to) + to.bytes;
  }
  return true;
}

std::string name_of(const Slice& slice, const Slice& first) {
  const PagedRegion* const paged = paged_region(slice);
  const bool is_other = &slice != &first && slice.place == first.place;
  const std::string place = place_name(slice.place);
  return (is_other ? "other " : "") + (paged == nullptr ? place : "blocks in " + place);
}

// Of the operation's `what`.
Result<void> require_block(const PagedRegion& paged, const Slice& slice, ptrdiff_t page,
                           const char* what) {
  const cuda::PagedMemory& memory = paged.memory();
  if (memory.is_block(slice.data, slice.bytes)) return {};
  return fail(
      Code::kInvalid,
      fmt::format("page {} of the {} is no whole block: it has {} bytes at offset {} of its "
                  "region, where each block has {}",
                  page, what, slice.bytes, slice.data - memory.data(), memory.block_bytes()));
}

// `sentence` takes two pages and their places.
template <typename Request>
Result<MemoryPlace> one_place(
    std::span<const Request> requests, Slice Request::*memory, const char* what,
    fmt::format_string<ptrdiff_t, ptrdiff_t, std::string, std::string> sentence) {
  const Request* first = nullptr;
  const PagedRegion* paged = nullptr;
  for (const Request& request : requests) {
    const Slice& slice = request.*memory;
    if (slice.bytes == 0) continue;
    if (first == nullptr) {
      first = &request;
      paged = paged_region(slice);
    }
    const Slice& of_first = first->*memory;
    if (slice.place != of_first.place || paged_region(slice) != paged) {
      return fail(Code::kInvalid,
                  fmt::format(sentence, first - requests.data(), &request - requests.data(),
                              name_of(of_first, of_first), name_of(slice, of_first)));
    }
    if (paged == nullptr) continue;
    const auto whole = require_block(*paged, slice, &request - requests.data(), what);
    if (!whole) return tl::unexpected(whole.error());
  }
  return first == nullptr ? MemoryPlace{} : (first->*memory).place;
}

}  // namespace

Result<void> require_apart(std::span<const PageRequest> requests) {
  if (rise(requests)) return {};
  std::vector<const PageRequest*> sorted;
  sorted.reserve(requests.size());
  for (const PageRequest& request : requests) {
    if (request.destination.bytes > 0) sorted.push_back(&request);
  }
  // Of two in one place, the one that comes first stands first.
  std::ranges::sort(sorted, {}, [](const PageRequest* request) {
    return std::pair(begin_of(request->destination), request);
  });
  const auto overlap = [](const PageRequest* one, const PageRequest* next) {
    return begin_of(next->destination) - begin_of(one->destination) < one->destination.bytes;
  };
  const auto found = std::ranges::adjacent_find(sorted, overlap);
  if (found == sorted.end()) return {};
  const auto [first, second] = std::minmax({found[0], found[1]});
  return fail(Code::kInvalid,
              fmt::format("pages {} and {} of the fetch would land in the same bytes: give each "
                          "page memory of its own",
                          first - requests.data(), second - requests.data()));
}

Result<MemoryPlace> place_of(std::span<const PageRequest> requests) {
  return one_place(requests, &PageRequest::destination, "fetch",
                   "pages {} and {} of the fetch would land in {} and in {}: fetch into each of "
                   "them by itself");
}

Result<MemoryPlace> place_of(std::span<const PutRequest> requests) {
  return one_place(requests, &PutRequest::source, "put",
                   "pages {} and {} of the put lie in {} and in {}: put from each of them by "
                   "itself");
}

}  // namespace farpage
