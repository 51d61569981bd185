#include "lab/paging/access_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace farpage::paging {
namespace {

using prefetch::Access;
using prefetch::PageNumber;

// Of a trace of requests: each stream has a table of them, some fifty bytes a page.
constexpr PageNumber kMostRequestPages = PageNumber{1} << 25;

constexpr uint32_t kLastTurn = 1'023;

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

class KeptRequests final : public RequestStream {
 public:
  explicit KeptRequests(std::shared_ptr<const std::vector<TraceRequest>> requests)
      : requests_(std::move(requests)) {}

  Result<std::optional<TraceRequest>> next() override {
    if (next_ == requests_->size()) return std::nullopt;
    return (*requests_)[next_++];
  }

 private:
  std::shared_ptr<const std::vector<TraceRequest>> requests_;
  size_t next_ = 0;
};

// Notes whose its requests are.
class NotedRequests final : public RequestStream {
 public:
  NotedRequests(std::unique_ptr<RequestStream> requests, AccessTrace& trace)
      : requests_(std::move(requests)), trace_(trace) {}

  Result<std::optional<TraceRequest>> next() override {
    auto request = requests_->next();
    if (request && *request) trace_.sequences.push_back((*request)->session);
    trace_.signals.set(prefetch::index_of(prefetch::Signal::kCategory), requests_->has_sessions());
    return request;
  }

 private:
  std::unique_ptr<RequestStream> requests_;
  AccessTrace& trace_;
};

class RequestAccesses final : public AccessStream {
 public:
  // No more than so many are there.
  struct Known {
    uint64_t pages = UINT64_MAX;
    uint64_t accesses = UINT64_MAX;
  };

  RequestAccesses(std::unique_ptr<RequestStream> requests, uint64_t max_requests, Known known)
      : requests_(std::move(requests)), max_requests_(max_requests), known_(known) {}

  Result<size_t> read(std::span<Access> accesses) override {
    size_t count = 0;
    while (count < accesses.size()) {
      if (next_ == ids_.size()) {
        const auto more = next_request();
        if (!more) return tl::unexpected(more.error());
        if (!*more) break;
        continue;
      }
      const auto fresh = static_cast<PageNumber>(numbers_.size());
      const PageNumber page = numbers_.emplace(ids_[next_++], fresh).first->second;
      if (page == kMostRequestPages) {
        return fail(Code::kInvalid,
                    fmt::format("the trace has more than {} different pages: --requests takes the "
                                "first of its requests",
                                kMostRequestPages));
      }
      if (page >= known_.pages || number_ >= known_.accesses) {
        return fail(Code::kInvalid, "the trace has changed since it was counted: replay it again");
      }
      Access& access = accesses[count++] = {number_++, begun_ - 1, page};
      access.category = std::min(turn_, kLastTurn);
    }
    return count;
  }

 private:
  Result<bool> next_request() {
    if (max_requests_ != 0 && begun_ == max_requests_) return false;
    auto request = requests_->next();
    if (!request) return tl::unexpected(request.error());
    if (!*request) return false;
    ids_ = std::move((*request)->hash_ids);
    turn_ = (*request)->turn;
    next_ = 0;
    ++begun_;
    return true;
  }

  std::unique_ptr<RequestStream> requests_;
  const uint64_t max_requests_;
  const Known known_;
  uint64_t begun_ = 0;         // requests
  std::vector<uint64_t> ids_;  // of the last of them
  uint32_t turn_ = 0;          // likewise
  size_t next_ = 0;            // of these
  uint64_t number_ = 0;
  std::unordered_map<uint64_t, PageNumber> numbers_;  // by id
};

class ObservedStream final : public AccessStream {
 public:
  ObservedStream(std::unique_ptr<AccessStream> accesses, std::function<void(size_t)> read)
      : accesses_(std::move(accesses)), read_(std::move(read)) {}

  Result<size_t> read(std::span<Access> accesses) override {
    auto read = accesses_->read(accesses);
    if (read) read_(*read);
    return read;
  }

 private:
  const std::unique_ptr<AccessStream> accesses_;
  const std::function<void(size_t)> read_;
};

Result<void> count(AccessTrace& trace) {
  return for_each_access(trace, [&](const Access& access) {
    ++trace.accesses;
    trace.pages = std::max<uint64_t>(trace.pages, access.page + uint64_t{1});
  });
}

}  // namespace

AccessTrace observed(const AccessTrace& trace, std::function<void(size_t)> read) {
  AccessTrace seen = trace;
  seen.open = [open = trace.open, read = std::move(read)] {
    return open().map([&](std::unique_ptr<AccessStream> accesses) {
      return std::unique_ptr<AccessStream>(
          std::make_unique<ObservedStream>(std::move(accesses), read));
    });
  };
  return seen;
}

AccessTrace trace_of_accesses(std::string name, bool synthetic, std::vector<Access> accesses) {
  AccessTrace trace;
  trace.name = std::move(name);
  trace.synthetic = synthetic;
  trace.accesses = accesses.size();
  for (const Access& access : accesses) {
    trace.pages = std::max<uint64_t>(trace.pages, access.page + uint64_t{1});
    trace.layout.heads = std::max(trace.layout.heads, access.head + 1);
  }
  auto kept = std::make_shared<const std::vector<Access>>(std::move(accesses));
  trace.open = [kept = std::move(kept)]() -> Result<std::unique_ptr<AccessStream>> {
    return std::make_unique<MemoryStream>(kept);
  };
  return trace;
}

AccessTrace accesses_of(Trace trace) {
  AccessTrace accesses;
  accesses.name = trace.name;
  accesses.synthetic = trace.synthetic;
  accesses.signals.set(prefetch::index_of(prefetch::Signal::kCategory), trace.has_sessions);
  if (trace.has_sessions) {
    for (const TraceRequest& each : trace.requests) accesses.sequences.push_back(each.session);
  }
  const auto kept = std::make_shared<const std::vector<TraceRequest>>(std::move(trace.requests));
  accesses.open = [kept]() -> Result<std::unique_ptr<AccessStream>> {
    return std::make_unique<RequestAccesses>(std::make_unique<KeptRequests>(kept), 0,
                                             RequestAccesses::Known());
  };
  FARPAGE_CHECK(count(accesses).has_value());
  return accesses;
}

Result<AccessTrace> accesses_of_file(const OpenRequests& open, const std::string& path,
                                     uint64_t max_requests) {
  using Known = RequestAccesses::Known;
  AccessTrace accesses;
  accesses.name = path;
  accesses.open = [&]() -> Result<std::unique_ptr<AccessStream>> {
    auto requests = open(path);
    if (!requests) return tl::unexpected(requests.error());
    return std::make_unique<RequestAccesses>(
        std::make_unique<NotedRequests>(std::move(*requests), accesses), max_requests, Known());
  };
  if (auto counted = count(accesses); !counted) return tl::unexpected(counted.error());
  if (accesses.signals.none()) accesses.sequences = {};
  accesses.open = [open, path, max_requests,
                   known = Known{accesses.pages,
                                 accesses.accesses}]() -> Result<std::unique_ptr<AccessStream>> {
    auto requests = open(path);
    if (!requests) return tl::unexpected(requests.error());
    return std::make_unique<RequestAccesses>(std::move(*requests), max_requests, known);
  };
  if (accesses.pages > 0) return accesses;
  return fail(Code::kInvalid, fmt::format("{}: no request of the trace has a page", path));
}

Result<TraceFuture> TraceFuture::of(const AccessTrace& trace) {
  TraceFuture future(trace.accesses);
  std::vector<uint64_t> last(trace.pages, kNever);  // where each page was accessed last
  uint64_t step = 0;
  auto read = for_each_access(trace, [&](const Access& access) {
    if (future.step_begins_.empty() || access.step != step) {
      future.step_begins_.push_back(access.number);
    }
    step = access.step;
    uint64_t& before = last[access.page];
    if (before != kNever) future.next_[before] = access.number;
    before = access.number;
    future.pages_.push_back(access.page);
  });
  if (!read) return tl::unexpected(read.error());
  return future;
}

}  // namespace farpage::paging
