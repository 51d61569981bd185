#include <algorithm>
#include <mutex>
#include <optional>

#include "integrity/crc32c.h"
#include "tier/client.h"
#include "tier/node_link.h"

namespace farpage {
namespace {

// Pages that travel in one commit.
struct Group {
  std::span<const PutRequest> requests;
  size_t first = 0;
  uint64_t bytes = 0;
};

uint64_t staged_bytes(const PutRequest& request) {
  return round_up(request.source.bytes, 64);
}

bool fits(const PutRequest& request, uint64_t most_bytes) {
  return request.source.bytes > 0 && request.source.bytes <= most_bytes;
}

// The longest run from `first` on that one commit takes; empty if the first page fits nowhere.
Group next_group(std::span<const PutRequest> requests, size_t first, const View& view) {
  Group group;
  group.first = first;
  size_t last = first;
  while (last < requests.size() && last - first < kMaxCommitPages) {
    const uint64_t bytes = staged_bytes(requests[last]);
    if (!fits(requests[last], view.geometry.page_bytes) || bytes > view.staging->bytes()) break;
    if (last > first && group.bytes + bytes > view.staging->bytes() / 2) break;
    group.bytes += bytes;
    ++last;
  }
  group.requests = requests.subspan(first, last - first);
  return group;
}

}  // namespace

// Shared by the caller and the callbacks of its commits, which may come after the caller has
// stopped to wait.
struct PutState {
  std::mutex mutex;
  std::vector<PutResult> results;
  size_t unanswered = 0;  // commits
  bool closed = false;    // the results have been read; they stay as they are
  uint64_t deadline_ns = 0;

  bool done() {
    std::lock_guard lock(mutex);
    return unanswered == 0 || closed;
  }
};

struct RemoveState {
  std::mutex mutex;
  uint64_t removed = 0;
  std::optional<Error> error;
  size_t unanswered = 0;
  uint64_t deadline_ns = 0;

  bool done() {
    std::lock_guard lock(mutex);
    return unanswered == 0;
  }
};

Put::Put(Runtime* runtime, std::shared_ptr<PutState> state)
    : runtime_(runtime), state_(std::move(state)) {}

bool Put::done() const {
  return state_->done();
}

std::span<const PutResult> Put::wait() {
  runtime_->wait_until(state_->deadline_ns, [this] { return state_->done(); });
  std::lock_guard lock(state_->mutex);
  state_->closed = true;
  return state_->results;
}

Remove::Remove(Runtime* runtime, std::shared_ptr<RemoveState> state)
    : runtime_(runtime), state_(std::move(state)) {}

bool Remove::done() const {
  return state_->done();
}

Result<uint64_t> Remove::wait() {
  runtime_->wait_until(state_->deadline_ns, [this] { return state_->done(); });
  std::lock_guard lock(state_->mutex);
  if (state_->error) return tl::unexpected(*state_->error);
  if (state_->unanswered > 0) {
    return fail(Code::kTimeout,
                "the remove was not acknowledged by its deadline; the pages may be "
                "removed or not");
  }
  return state_->removed;
}

Put Client::put(std::span<const PutRequest> requests, uint64_t deadline_ns) {
  Runtime& runtime = link_->runtime();
  auto state = std::make_shared<PutState>();
  state->results.resize(requests.size());
  state->deadline_ns = deadline_ns;
  const auto answer = [&](size_t first, size_t count, Code code) {
    link_->counters()->count_puts(0, count);
    std::lock_guard lock(state->mutex);
    std::fill_n(state->results.begin() + static_cast<ptrdiff_t>(first), count, PutResult{code, 0});
  };

  for (size_t at = 0; at < requests.size();) {
    const std::shared_ptr<View> view = link_->view();
    if (view == nullptr || view->staging == nullptr || !view->connected ||
        !view->valid(runtime.clock().now_ns())) {
      answer(at, requests.size() - at, Code::kUnavailable);
      break;
    }
    const Group group = next_group(requests, at, *view);
    if (group.requests.empty()) {
      answer(at++, 1, Code::kInvalid);
      continue;
    }
    at += group.requests.size();
    std::optional<Staging::Segment> segment;
    runtime.wait_until(deadline_ns, [&] {
      segment = view->staging->allocate(group.bytes);
      return segment.has_value();
    });
    if (!segment) {
      answer(group.first, group.requests.size(), Code::kTimeout);
      continue;
    }

    CommitRequest commit;
    commit.immediate = segment->immediate;
    std::vector<Slice> sources;
    uint64_t offset = segment->offset;
    for (const PutRequest& request : group.requests) {
      const uint32_t crc = crc32c(0, request.source.data, request.source.bytes);
      commit.pages.push_back(
          {request.key, offset, static_cast<uint32_t>(request.source.bytes), crc});
      sources.push_back(request.source);
      offset += staged_bytes(request);
    }
    const Status written = view->staging->write(*segment, sources, runtime.clock(), deadline_ns);
    const uint64_t now = runtime.clock().now_ns();
    if (!written.ok() && written.code != Code::kTimeout) {
      answer(group.first, group.requests.size(), Code::kTimeout);
      link_->give_up(view);
      continue;
    }
    if (!written.ok() || now >= deadline_ns) {
      view->staging->release(segment->id);
      answer(group.first, group.requests.size(), Code::kTimeout);
      continue;
    }
    commit.patience_ns = deadline_ns - now;
    {
      std::lock_guard lock(state->mutex);
      ++state->unanswered;
    }
    view->link->call(std::move(commit), [state, counters = link_->counters(),
                                         staging = view->staging, &runtime, first = group.first,
                                         count = group.requests.size(),
                                         id = segment->id](Result<Reply> reply) {
      staging->release(id);
      size_t stored = 0;
      {
        std::lock_guard lock(state->mutex);
        --state->unanswered;
        const auto* answered = reply ? std::get_if<CommitReply>(&*reply) : nullptr;
        if (!state->closed && answered != nullptr && answered->results.size() == count) {
          for (size_t i = 0; i < count; ++i) {
            state->results[first + i] = {answered->results[i].code, answered->results[i].version};
            stored += answered->results[i].code == Code::kOk ? 1 : 0;
          }
        }
      }
      counters->count_puts(stored, count - stored);
      runtime.notify();
    });
  }
  return Put(&runtime, std::move(state));
}

Remove Client::remove(std::span<const PageKey> keys, uint64_t deadline_ns) {
  Runtime& runtime = link_->runtime();
  auto state = std::make_shared<RemoveState>();
  state->deadline_ns = deadline_ns;
  const std::shared_ptr<View> view = link_->view();
  if (view == nullptr || !view->connected || !view->valid(runtime.clock().now_ns())) {
    state->error = Error{Code::kUnavailable, "no memory node can be reached now"};
    return Remove(&runtime, std::move(state));
  }
  while (!keys.empty()) {
    const auto part = keys.first(std::min<size_t>(keys.size(), kMaxRemoveKeys));
    keys = keys.subspan(part.size());
    {
      std::lock_guard lock(state->mutex);
      ++state->unanswered;
    }
    view->link->call(
        RemoveRequest{{part.begin(), part.end()}}, [state, &runtime](Result<Reply> reply) {
          {
            std::lock_guard lock(state->mutex);
            --state->unanswered;
            const auto* answered = reply ? std::get_if<RemoveReply>(&*reply) : nullptr;
            if (answered != nullptr) {
              state->removed += answered->removed;
            } else {
              state->error = reply ? Error{Code::kProtocol, "the node refused to remove pages"}
                                   : reply.error();
            }
          }
          runtime.notify();
        });
  }
  return Remove(&runtime, std::move(state));
}

}  // namespace farpage
