#include "node/clients/push_path.h"

#include <algorithm>
#include <array>

#include "transport/transfer_counters.h"

namespace farpage {
namespace {

// A backend that copies does so when it is polled: no more before another path has its turn.
constexpr size_t kPollBatch = 16;
constexpr uint64_t kPollBytes = 1 * kMiB;
// A client that takes no more immediates, or cannot be reached. It could not use pages older than
// `read_window` anyway.
constexpr uint64_t kSilentNs = 1 * kSecond;

}  // namespace

PushPath::PushPath(std::unique_ptr<Initiator> channel, const RemoteRegion& landing, uint64_t places,
                   PageStore& store, PushCounts& counts)
    : channel_(std::move(channel)),
      landing_(landing),
      store_(store),
      counts_(counts),
      places_(places) {}

Result<void> PushPath::check(const PushRequest& request) const {
  if (request.pages.empty() || request.group_pages == 0 ||
      push_groups(request.pages.size(), request.group_pages) > kMaxPushGroups) {
    return fail(Code::kInvalid, "a push has 1 to 1024 pages, in 1 to 256 groups");
  }
  std::vector<uint32_t> places;
  places.reserve(request.pages.size());
  for (const PushPage& page : request.pages) places.push_back(page.place);
  std::ranges::sort(places);
  if (places.back() >= places_) {
    return fail(Code::kInvalid, "a push names a place that its landing does not have");
  }
  if (std::ranges::adjacent_find(places) != places.end()) {
    return fail(Code::kInvalid, "a push names a place twice");
  }
  if (queue_.size() + under_way_.size() + request.pages.size() > kMostQueued) {
    return fail(Code::kExhausted, "too many pages of this push lane wait to be written");
  }
  return {};
}

Result<PushReply> PushPath::enqueue(const PushRequest& request, uint64_t deadline_ns) {
  if (auto valid = check(request); !valid) return tl::unexpected(valid.error());
  PushReply reply;
  reply.codes.reserve(request.pages.size());
  for (size_t first = 0; first < request.pages.size(); first += request.group_pages) {
    const size_t queued = queue_.size();
    const auto group =
        std::span(request.pages)
            .subspan(first, std::min<size_t>(request.group_pages, request.pages.size() - first));
    for (const PushPage& page : group) {
      const auto stored = store_.find(page.key);
      reply.codes.push_back(stored ? Code::kOk : Code::kNotFound);
      if (!stored) {
        ++counts_.missed;
        continue;
      }
      store_.touch(stored->slot);
      queue_.push_back({deadline_ns, stored->slot, page.place, stored->payload_bytes, 0, false});
    }
    if (queue_.size() == queued) queue_.push_back({deadline_ns, 0, 0, 0, 0, false});
    queue_.back().immediate =
        group_immediate(request.immediate, static_cast<uint32_t>(first / request.group_pages));
    queue_.back().has_immediate = true;
  }
  return reply;
}

void PushPath::write(const Write& write) {
  Operation& operation = channel_->next();
  operation = {};
  operation.kind = OperationKind::kWrite;
  operation.tag = first_under_way_ + under_way_.size();
  operation.remote = landing_;
  operation.has_immediate = write.has_immediate;
  operation.immediate = write.immediate;
  under_way_.push_back({write.payload_bytes, false});
  if (write.payload_bytes == 0) return;
  operation.remote_offset = write.place * store_.geometry().slot_bytes();
  operation.local_count = 2;
  operation.local[0] = store_.header_slice(write.slot);
  operation.local[1] = store_.payload_slice(write.slot, write.payload_bytes);
}

// As much of what waits as the channel has room for.
Result<void> PushPath::post(uint64_t now_ns) {
  if (queue_.empty()) return {};
  if (under_way_.empty()) moved_ns_ = now_ns;
  for (; !queue_.empty() && channel_->room() > 0; queue_.pop_front()) {
    Write next = queue_.front();
    const bool late = now_ns >= next.deadline_ns;
    if (late && next.payload_bytes > 0) {
      ++counts_.late;
      // The client still waits for the immediate: with it its places are free again.
      next.payload_bytes = 0;
    }
    if (!late || next.has_immediate) write(next);
  }
  const Status posted = channel_->post();
  if (!posted.ok()) return fail(posted.code, posted.context);
  return {};
}

// False: it is no operation's, or one's that has ended before.
bool PushPath::ended(const Completion& completion) {
  const uint64_t at = completion.tag - first_under_way_;
  if (at >= under_way_.size() || under_way_[at].ended) return false;
  under_way_[at].ended = true;
  if (completion.outcome == Outcome::kOk && under_way_[at].payload_bytes > 0) {
    ++counts_.pages;
    counts_.bytes += under_way_[at].payload_bytes;
  }
  for (; !under_way_.empty() && under_way_.front().ended; ++first_under_way_) {
    under_way_.pop_front();
  }
  return true;
}

Result<size_t> PushPath::turn(uint64_t now_ns) {
  if (auto done = post(now_ns); !done) return tl::unexpected(done.error());
  if (under_way_.empty()) return 0;
  std::array<Completion, kPollBatch> completions;
  const size_t most =
      std::clamp<size_t>(kPollBytes / store_.geometry().slot_bytes(), 1, kPollBatch);
  const size_t count = channel_->poll(std::span(completions).first(most));
  if (count > 0) moved_ns_ = now_ns;
  const auto polled = std::span<const Completion>(completions).first(count);
  for (const Completion& completion : polled) {
    if (ended(completion) && completion.outcome != Outcome::kOk) {
      return fail(Code::kUnavailable, "a write to a client's landing failed");
    }
  }
  if (!under_way_.empty() && now_ns - moved_ns_ >= kSilentNs) {
    return fail(Code::kTimeout, "a client's landing takes nothing");
  }
  return count;
}

}  // namespace farpage
