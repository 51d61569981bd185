#include "bench/paging/access_trace.h"

#include <unordered_map>

namespace farpage::paging {

using prefetch::PageNumber;

AccessTrace accesses_of(const Trace& trace) {
  AccessTrace made = {trace.name, trace.synthetic, 0, {}};
  made.accesses.reserve(trace.pages());
  std::unordered_map<uint64_t, PageNumber> numbers;
  for (uint64_t step = 0; step < trace.requests.size(); ++step) {
    for (const uint64_t id : trace.requests[step].hash_ids) {
      const auto next = static_cast<PageNumber>(numbers.size());
      const PageNumber page = numbers.emplace(id, next).first->second;
      made.accesses.push_back({made.accesses.size(), step, page});
    }
  }
  made.pages = numbers.size();
  return made;
}

TraceFuture::TraceFuture(const AccessTrace& trace) : next_(trace.accesses.size()) {
  std::vector<uint64_t> seen(trace.pages, Future::kNever);  // walking back: where last
  for (size_t number = trace.accesses.size(); number-- > 0;) {
    uint64_t& next = seen[trace.accesses[number].page];
    next_[number] = next;
    next = number;
  }
}

}  // namespace farpage::paging
