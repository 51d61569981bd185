#include "client/gpu/gpu_driver.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "client/runner/told_verdicts.h"

namespace farpage {
namespace {

// One copy of so much is as fast as a longer one.
constexpr uint64_t kBlockBytes = 256 * kKiB;
constexpr uint64_t kAlignment = 64;  // pages of whole cache lines lie without gaps
constexpr size_t kMostPages = 64;    // in a portion

// Nothing tells of a copy's end. After one was started, the thread keeps its core for so long, and
// then looks now and then: seldom, if nobody waits for it any more.
constexpr uint64_t kKeepCoreNs = 200 * kMicrosecond;
constexpr uint64_t kLookNs = 20 * kMicrosecond;
constexpr uint64_t kLateLookNs = kMillisecond;
constexpr uint64_t kStallNs = 5 * kSecond;  // until a warning says that copies do not end

}  // namespace

Result<GpuDriver> GpuDriver::open(Client& client,
                                  const std::shared_ptr<const cuda::GpuContext>& context,
                                  const GpuOptions& options) {
  const uint64_t page_bytes = round_up(client.page_bytes(), kAlignment);
  const uint64_t block_bytes = std::max(page_bytes, std::min(kBlockBytes, options.bounce_bytes));
  const uint64_t blocks = options.bounce_bytes / block_bytes;
  if (blocks == 0) {
    return fail(Code::kInvalid, fmt::format("gpu.bounce_bytes is {}, and the nodes' pages have {}: "
                                            "make it at least as large as a page",
                                            options.bounce_bytes, page_bytes));
  }
  auto bounce = cuda::PinnedMemory::make(context, blocks * block_bytes);
  if (!bounce) {
    return fail(bounce.error().code,
                bounce.error().message + ": lower gpu.bounce_bytes, or free host memory");
  }
  auto region = client.register_memory({bounce->data(), bounce->bytes()});
  if (!region) return tl::unexpected(region.error());
  auto copies = cuda::CopyQueue::make(context, static_cast<uint32_t>(blocks));
  if (!copies) return tl::unexpected(copies.error());
  auto lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  lane->allow_interrupts();
  if (blocks > Lane::kWindow) lane->reserve_fetches(static_cast<uint32_t>(blocks) - Lane::kWindow);
  return GpuDriver(std::move(*bounce), std::move(*region), std::move(*copies), std::move(*lane),
                   client.clock(), block_bytes);
}

GpuDriver::GpuDriver(cuda::PinnedMemory bounce, Region region, cuda::CopyQueue copies, Lane lane,
                     const Clock& clock, uint64_t block_bytes)
    : bounce_(std::move(bounce)),
      region_(std::move(region)),
      copies_(std::move(copies)),
      lane_(std::move(lane)),
      clock_(&clock),
      block_bytes_(block_bytes),
      portions_(region_.bytes() / block_bytes) {
  const auto blocks = static_cast<uint32_t>(portions_.size());
  free_.reserve(blocks);
  let_go_.reserve(blocks);
  batch_.reserve(kMostPages);
  for (uint32_t block = blocks; block-- > 0;) {
    portions_[block].reserve(kMostPages);
    free_.push_back(block);
  }
}

std::optional<GpuDriver::Operation> GpuDriver::begin(Submission& submission,
                                                     const std::function<void()>&) {
  submission.verdicts.resize(submission.requests.size());
  Operation operation;
  operation.pages = static_cast<uint32_t>(submission.requests.size());
  operation.since_ns = clock_->now_ns();
  return operation;
}

bool GpuDriver::progress() {
  can_copy_ = copies_.take_thread() && !copies_.is_broken();
  if (copies_.is_broken()) is_broken_->store(true, std::memory_order_relaxed);
  due_ns_ = kNever;
  is_awaited_ = false;
  first_hungry_ = std::exchange(next_hungry_, UINT64_MAX);
  const bool has_moved = lane_.progress();
  std::erase_if(let_go_, [this](uint32_t block) {
    if (!portions_[block].fetch.released()) return false;
    free_.push_back(block);
    return true;
  });
  return has_moved;
}

bool GpuDriver::go_on(Operation& operation, Submission& submission) {
  if (operation.released()) return false;
  Turn turn = {operation, submission};
  // A copy that has ended by the deadline is seen before the clock says that it has come.
  for (uint32_t block = operation.portions; block != kNone; block = portions_[block].next) {
    Portion& portion = portions_[block];
    if (portion.has_copies) portion.copies = copies_.poll(block);
  }
  turn.now_ns = clock_->now_ns();
  if (copying_ > 0) look_at_stall(turn.now_ns);
  for (uint32_t* link = &operation.portions; *link != kNone;) {
    const uint32_t block = *link;
    Portion& portion = portions_[block];
    end_copies(turn, portion);
    take_landed(turn, portion, block);
    if (turn.is_late()) decide_late(turn, portion);
    if (!portion.is_over()) {
      link = &portion.next;
      continue;
    }
    *link = portion.next;
    let_go_.push_back(block);
    turn.has_moved = true;
  }
  begin_portions(turn);
  const bool is_hungry = operation.begun < operation.pages && operation.portions == kNone;
  if (is_hungry != operation.is_hungry) hungry_ += is_hungry ? 1 : -1;
  if (is_hungry && !operation.is_hungry) operation.hungry_number = ++hungry_count_;
  operation.is_hungry = is_hungry;
  if (is_hungry) next_hungry_ = std::min(next_hungry_, operation.hungry_number);
  if (!operation.done()) {
    is_awaited_ = true;
    due_ns_ = std::min(due_ns_, submission.deadline_ns);
  }
  return turn.has_moved;
}

void GpuDriver::look_at_stall(uint64_t now_ns) {
  copies_.look_at_doubts(now_ns);
  if (now_ns - started_ns_ < kStallNs) return;
  stalls_.warn(
      fmt::format("cuda:{} has not ended its copies for {} s: tickets whose pages they "
                  "write, and the client's end, wait for it",
                  copies_.context().device(), (now_ns - started_ns_) / kSecond));
}

// The fetch that has been without a block for longest comes first, then the others without one.
bool GpuDriver::may_take(const Operation& operation) const {
  const bool is_first = operation.is_hungry && operation.hungry_number == first_hungry_;
  const uint32_t others = hungry_ - (operation.is_hungry ? 1 : 0);
  return free_.size() > (is_first ? 0 : others);
}

void GpuDriver::begin_portions(Turn& turn) {
  Operation& operation = turn.operation;
  const auto decide_next = [&](Reason reason) { recompute(turn, operation.begun++, reason); };
  if (!can_copy_ && operation.begun < operation.pages) warn_of_failure();
  while (operation.begun < operation.pages) {
    const PageRequest& next = turn.submission.requests[operation.begun];
    if (turn.is_late()) {
      decide_next(Reason::kStalled);
    } else if (!can_copy_) {
      decide_next(Reason::kUnreachable);
    } else if (next.destination.bytes > block_bytes_) {
      decide_next(Reason::kMiss);  // no node has pages of this length
    } else if (may_take(operation)) {
      begin_portion(turn);
    } else {
      return;
    }
  }
}

void GpuDriver::begin_portion(Turn& turn) {
  Operation& operation = turn.operation;
  Submission& submission = turn.submission;
  const uint32_t block = free_.back();
  free_.pop_back();
  Portion& portion = portions_[block];
  portion.begin(operation.begun);
  uint64_t used = 0;
  while (operation.begun < operation.pages && portion.requests.size() < kMostPages) {
    PageRequest request = submission.requests[operation.begun];
    const uint64_t bytes = request.destination.bytes;
    if (bytes > block_bytes_ - used) break;
    if (bytes > 0) request.destination = region_.slice(block * block_bytes_ + used, bytes);
    portion.add(request);
    used += round_up(bytes, kAlignment);
    ++operation.begun;
  }
  portion.next = std::exchange(operation.portions, block);
  portion.fetch =
      lane_.fetch(portion.requests, portion.verdicts, submission.deadline_ns, submission.options);
  turn.has_moved = true;
}

void GpuDriver::end_copies(Turn& turn, Portion& portion) {
  if (!portion.has_copies || portion.copies == cuda::BatchState::kUnderWay) return;
  portion.has_copies = false;
  --copying_;
  turn.has_moved = true;
  const bool has_failed = portion.copies == cuda::BatchState::kFailed;
  if (has_failed) warn_of_failure();
  for (uint32_t i = 0; i < portion.pages.size(); ++i) {
    const uint32_t page = portion.first + i;
    PageVerdict& given = turn.submission.verdicts[page];
    given.place = Place::kReleased;  // of one that was late, too
    if (portion.pages[i] != Portion::Page::kCopying) continue;
    portion.pages[i] = Portion::Page::kOver;
    if (has_failed) {
      recompute(turn, page, Reason::kUnreachable);
    } else if (turn.is_late()) {
      recompute(turn, page, Reason::kStalled);
    } else {
      PageVerdict verdict = portion.verdicts[i];
      verdict.landed = turn.submission.requests[page].destination.data;
      decide(turn, page, verdict);
    }
  }
}

void GpuDriver::warn_of_failure() {
  failures_.warn(fmt::format("pages were not copied to cuda:{}: {}", copies_.context().device(),
                             copies_.why()));
}

// Good pages wait while a batch of the portion is under way: the next one has them all.
void GpuDriver::take_landed(Turn& turn, Portion& portion, uint32_t block) {
  for (uint32_t i = 0; i < portion.pages.size(); ++i) {
    const PageVerdict& landed = portion.verdicts[i];
    if (portion.pages[i] != Portion::Page::kLanding || landed.verdict == Verdict::kPending) {
      continue;
    }
    const uint32_t page = portion.first + i;
    const Slice& to = turn.submission.requests[page].destination;
    const bool is_copied = landed.verdict == Verdict::kReady && to.bytes > 0;
    if (is_copied && !turn.is_late() && can_copy_) {
      if (portion.has_copies) continue;
      const Slice& from = portion.requests[i].destination;
      cuda::add_copy(batch_, {from.data, reinterpret_cast<uint64_t>(to.data), to.bytes});
      portion.pages[i] = Portion::Page::kCopying;
      continue;
    }
    portion.pages[i] = Portion::Page::kOver;
    if (is_copied) {
      recompute(turn, page, turn.is_late() ? Reason::kStalled : Reason::kUnreachable);
    } else {
      PageVerdict verdict = landed;
      verdict.place = Place::kReleased;  // whatever may still write to the block
      decide(turn, page, verdict);
    }
  }
  if (batch_.empty()) return;
  copies_.start(block, batch_);
  batch_.clear();
  portion.has_copies = true;
  portion.copies = cuda::BatchState::kUnderWay;
  ++copying_;
  started_ns_ = turn.now_ns;
  turn.has_moved = true;
}

// What is on its way to the device gets there all the same.
void GpuDriver::decide_late(Turn& turn, Portion& portion) {
  for (uint32_t i = 0; i < portion.pages.size(); ++i) {
    const Portion::Page was = std::exchange(portion.pages[i], Portion::Page::kOver);
    if (was == Portion::Page::kOver) continue;
    recompute(turn, portion.first + i, Reason::kStalled,
              was == Portion::Page::kCopying ? Place::kHeld : Place::kReleased);
  }
}

void GpuDriver::recompute(Turn& turn, uint32_t page, Reason reason, Place place) {
  PageVerdict verdict;
  verdict.verdict = Verdict::kRecompute;
  verdict.reason = reason;
  verdict.place = place;
  decide(turn, page, verdict);
}

void GpuDriver::decide(Turn& turn, uint32_t page, const PageVerdict& verdict) {
  PageVerdict& given = turn.submission.verdicts[page];
  given = verdict;
  given.took_ns = turn.now_ns - turn.operation.since_ns;
  ++turn.operation.decided;
  turn.has_moved = true;
}

void GpuDriver::finish(Submission& submission) {
  count_told(submission, *counters_);
}

void GpuDriver::wait_idle(const SubmissionPool& pool, uint32_t rings) {
  if (let_go_.empty()) return pool.sleep(rings);
  wait(kNever);
}

void GpuDriver::wait(uint64_t until_ns) {
  until_ns = std::min(until_ns, due_ns_);
  if (copying_ > 0) {
    const uint64_t now_ns = clock_->now_ns();
    if (is_awaited_ && now_ns - started_ns_ < kKeepCoreNs) {
      ::sched_yield();
      return;
    }
    until_ns = std::min(until_ns, now_ns + (is_awaited_ ? kLookNs : kLateLookNs));
  }
  lane_.wait(until_ns);
}

}  // namespace farpage
