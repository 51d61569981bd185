#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "prefetch/access.h"
#include "prefetch/policy.h"
#include "replay/traces/trace.h"

namespace farpage::paging {

// The accesses of a trace once through, in order. On one thread.
class AccessStream {
 public:
  virtual ~AccessStream() = default;

  // How many have been written to `accesses`; 0 at the end.
  virtual Result<size_t> read(std::span<prefetch::Access> accesses) = 0;
};

// Accesses that were left out, and why.
struct Skipped {
  std::string reason;
  uint64_t accesses = 0;
};

// The demanded pages. Any number of streams may be open at once, each on its own thread.
struct AccessTrace {
  std::string name;
  bool synthetic = false;
  uint64_t pages = 0;  // how many different ones
  uint64_t accesses = 0;
  prefetch::Signals signals = {};
  prefetch::HeadLayout layout = {};
  std::vector<uint32_t> sequences = {};  // by step, whose it is; empty where that is not told
  std::vector<Skipped> skipped = {};
  std::function<Result<std::unique_ptr<AccessStream>>()> open;
};

// Of accesses in memory, whose numbers are their places, and whose heads are of one layer.
AccessTrace trace_of_accesses(std::string name, bool synthetic,
                              std::vector<prefetch::Access> accesses);

// Each block of a prompt is a page, each request a step. Of sessions a request's category is its
// turn, of which the first 1,024 are told apart.
AccessTrace accesses_of(Trace trace);
// Of a file, of which no more than a request is in memory at a time: it is opened and read once to
// count it, and once more for each stream. Stops after `max_requests`; 0: never.
Result<AccessTrace> accesses_of_file(const OpenRequests& open, const std::string& path,
                                     uint64_t max_requests);

// The same, whose streams tell `read` how many accesses they have read, each on its own thread.
AccessTrace observed(const AccessTrace& trace, std::function<void(size_t)> read);

// Calls `use` with each access of the trace.
template <typename Use>
Result<void> for_each_access(const AccessTrace& trace, Use use) {
  auto stream = trace.open();
  if (!stream) return tl::unexpected(stream.error());
  std::vector<prefetch::Access> some(1'024);
  while (true) {
    const auto read = (*stream)->read(some);
    if (!read) return tl::unexpected(read.error());
    if (*read == 0) return {};
    for (const prefetch::Access& access : std::span(some).first(*read)) use(access);
  }
}

// Of all of a trace at once: twelve bytes for each access, and eight for a step.
class TraceFuture final : public prefetch::Future {
 public:
  static Result<TraceFuture> of(const AccessTrace& trace);
  uint64_t next(uint64_t access_number) const override { return next_[access_number]; }
  prefetch::PageNumber page(uint64_t access_number) const override { return pages_[access_number]; }
  uint64_t accesses() const override { return pages_.size(); }
  std::span<const uint64_t> step_begins() const override { return step_begins_; }

 private:
  explicit TraceFuture(uint64_t accesses) : next_(accesses, kNever) { pages_.reserve(accesses); }

  std::vector<uint64_t> next_;
  std::vector<prefetch::PageNumber> pages_;
  std::vector<uint64_t> step_begins_;
};

// Of the trace, if one of these sees it; else nothing.
template <typename Chosen>
Result<std::optional<TraceFuture>> future_for(const AccessTrace& trace,
                                              std::span<const Chosen> chosen) {
  for (const Chosen& each : chosen) {
    if (each.info->sees_future) return TraceFuture::of(trace);
  }
  return std::nullopt;
}

}  // namespace farpage::paging
