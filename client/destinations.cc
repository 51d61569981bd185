#include "client/destinations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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

// `sentence` takes two pages and their places.
template <typename Request>
Result<MemoryPlace> one_place(
    std::span<const Request> requests, Slice Request::*memory,
    fmt::format_string<ptrdiff_t, ptrdiff_t, std::string, std::string> sentence) {
  const Request* first = nullptr;
  for (const Request& request : requests) {
    const Slice& slice = request.*memory;
    if (slice.bytes == 0) continue;
    if (first == nullptr) first = &request;
    const MemoryPlace place = (first->*memory).place;
    if (slice.place == place) continue;
    return fail(Code::kInvalid,
                fmt::format(sentence, first - requests.data(), &request - requests.data(),
                            place_name(place), place_name(slice.place)));
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
  return one_place(requests, &PageRequest::destination,
                   "pages {} and {} of the fetch would land in {} and in {}: fetch into each of "
                   "them by itself");
}

Result<MemoryPlace> place_of(std::span<const PutRequest> requests) {
  return one_place(requests, &PutRequest::source,
                   "pages {} and {} of the put lie in {} and in {}: put from each of them by "
                   "itself");
}

}  // namespace farpage
