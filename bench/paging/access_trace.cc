#include "bench/paging/access_trace.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace farpage::paging {
namespace {

using prefetch::Access;
using prefetch::PageNumber;

class MemoryStream final : public AccessStream {
 public:
  explicit MemoryStream(std::shared_ptr<const std::vector<Access>> accesses)
      : accesses_(std::move(accesses)) {}

  Result<size_t> read(std::span<Access> accesses) override {
    const auto rest = std::span(*accesses_).subspan(next_);
    const size_t count = std::min(rest.size(), accesses.size());
    std::ranges::copy(rest.first(count), accesses.begin());
    next_ += count;
    return count;
  }

 private:
  std::shared_ptr<const std::vector<Access>> accesses_;
  size_t next_ = 0;
};

}  // namespace

AccessTrace trace_of_accesses(std::string name, bool synthetic, std::vector<Access> accesses) {
  AccessTrace trace;
  trace.name = std::move(name);
  trace.synthetic = synthetic;
  trace.accesses = accesses.size();
  for (const Access& access : accesses) {
    trace.pages = std::max<uint64_t>(trace.pages, access.page + uint64_t{1});
  }
  auto kept = std::make_shared<const std::vector<Access>>(std::move(accesses));
  trace.open = [kept = std::move(kept)]() -> Result<std::unique_ptr<AccessStream>> {
    return std::make_unique<MemoryStream>(kept);
  };
  return trace;
}

AccessTrace accesses_of(const Trace& trace) {
  std::vector<Access> accesses;
  accesses.reserve(trace.pages());
  std::unordered_map<uint64_t, PageNumber> numbers;
  for (uint64_t step = 0; step < trace.requests.size(); ++step) {
    for (const uint64_t id : trace.requests[step].hash_ids) {
      const auto next = static_cast<PageNumber>(numbers.size());
      const PageNumber page = numbers.emplace(id, next).first->second;
      accesses.push_back({accesses.size(), step, page});
    }
  }
  return trace_of_accesses(trace.name, trace.synthetic, std::move(accesses));
}

Result<TraceFuture> TraceFuture::of(const AccessTrace& trace) {
  TraceFuture future(trace.accesses);
  std::vector<uint64_t> last(trace.pages, kNever);  // where each page was accessed last
  auto read = for_each_access(trace, [&](const Access& access) {
    uint64_t& before = last[access.page];
    if (before != kNever) future.next_[before] = access.number;
    before = access.number;
  });
  if (!read) return tl::unexpected(read.error());
  return future;
}

}  // namespace farpage::paging
