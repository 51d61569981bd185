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
constexpr size_t kMostPages = PagedRegion::kMostPages;  // in a portion
constexpr uint64_t kPutShare = 4;  // puts have a fourth as many blocks as fetches

// Nothing tells of a copy's end, or of a stream's. After a copy was started, the thread keeps its
// core for so long, and then looks now and then: the more seldom the longer it lasts, and seldom if
// nobody waits for it any more.
constexpr uint64_t kKeepCoreNs = 200 * kMicrosecond;
constexpr uint64_t kLookNs = 20 * kMicrosecond;
constexpr uint64_t kLookShare = 64;  // of the time that a copy has lasted, until the next look
constexpr uint64_t kLateLookNs = kMillisecond;
constexpr uint64_t kStallNs = 5 * kSecond;  // until a warning says that copies do not end

// Where it cannot, it says so, and copies go on unchecked.
void add_checks(cuda::CopyQueue& copies) {
  const cuda::GpuContext& context = *copies.context();
  const cuda::CurrentContext current(context);
  const auto added = cuda::PageKernels::load(context.driver(), context.device())
                         .and_then([&](const cuda::PageKernels& kernels) {
                           return copies.add_checks(kernels, kMostPages);
                         });
  if (added) return;
  log_warning(fmt::format("cuda:{} does not check what is copied to it (gpu.check_copies): {}",
                          context.device(), added.error().message));
}

}  // namespace

Result<GpuDriver> GpuDriver::open(Client& client, WriteRunner& writes,
                                  const std::shared_ptr<const cuda::GpuContext>& context,
                                  const GpuOptions& options) {
  const uint64_t page_bytes = round_up(client.page_bytes(), kAlignment);
  const uint64_t block_bytes = std::max(page_bytes, std::min(kBlockBytes, options.bounce_bytes));
  const auto landing = static_cast<uint32_t>(options.bounce_bytes / block_bytes);
  if (landing == 0) {
    return fail(Code::kInvalid, fmt::format("gpu.bounce_bytes is {}, and the nodes' pages have {}: "
                                            "make it at least as large as a page",
                                            options.bounce_bytes, page_bytes));
  }
  const uint64_t blocks = landing + round_up(landing, kPutShare) / kPutShare;
  auto bounce = cuda::PinnedMemory::make(context, blocks * block_bytes);
  if (!bounce) {
    return fail(bounce.error().code,
                bounce.error().message + ": lower gpu.bounce_bytes, or free host memory");
  }
  auto region = client.register_memory({bounce->data(), bounce->bytes()});
  if (!region) return tl::unexpected(region.error());
  const bool copies_straight = client.page_bytes() >= options.straight_bytes;
  const uint64_t batches = blocks + (copies_straight ? StraightCopies::kBatches : 0);
  auto copies = cuda::CopyQueue::make(context, static_cast<uint32_t>(batches));
  if (!copies) return tl::unexpected(copies.error());
  if (options.check_copies) add_checks(*copies);
  auto lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  lane->allow_interrupts();
  if (landing > Lane::kWindow) lane->reserve_fetches(landing - Lane::kWindow);
  GpuDriver driver(client, writes, std::move(*bounce), std::move(*region), std::move(*copies),
                   std::move(*lane), block_bytes, landing);
  if (copies_straight) driver.copy_straight(options.straight_bytes);
  return driver;
}

GpuDriver::GpuDriver(Client& client, WriteRunner& writes, cuda::PinnedMemory bounce, Region region,
                     cuda::CopyQueue copies, Lane lane, uint64_t block_bytes,
                     uint32_t landing_blocks)
    : client_(&client),
      writes_(&writes),
      bounce_(std::move(bounce)),
      region_(std::move(region)),
      copies_(std::make_unique<cuda::CopyQueue>(std::move(copies))),
      lane_(std::move(lane)),
      clock_(&client.clock()),
      block_bytes_(block_bytes),
      portions_(region_.bytes() / block_bytes),
      landing_blocks_(landing_blocks),
      landing_(0, landing_blocks),
      leaving_(landing_blocks, static_cast<uint32_t>(portions_.size()) - landing_blocks),
      puts_(writes.make_pool({.queue_depth = portions_.size() - landing_blocks})) {
  let_go_.reserve(portions_.size());
  checks_.reserve(kMostPages);
  for (Portion& portion : portions_) portion.reserve(kMostPages);
}

void GpuDriver::copy_straight(uint64_t from_bytes) {
  straight_ = std::make_unique<StraightCopies>(*copies_, static_cast<uint32_t>(portions_.size()),
                                               *clock_, *last_hop_);
  straight_bytes_ = from_bytes;
  lane_.copy_straight(*straight_);
}

namespace {

template <typename Request>
PagedRegion* find_paged(const std::vector<Request>& requests, Slice Request::*memory) {
  const auto is_there = [memory](const Request& request) { return (request.*memory).bytes > 0; };
  const auto found = std::ranges::find_if(requests, is_there);
  return found == requests.end() ? nullptr : paged_region((*found).*memory);
}

}  // namespace

std::optional<GpuDriver::Operation> GpuDriver::begin(Submission& submission,
                                                     const std::function<void()>&) {
  Operation operation;
  operation.since_ns = clock_->now_ns();
  if (submission.kind == SubmissionKind::kFetch) {
    operation.pages = static_cast<uint32_t>(submission.requests.size());
    operation.paged = find_paged(submission.requests, &PageRequest::destination);
    submission.verdicts.resize(operation.pages);
    fenced_ += submission.notification.fence != nullptr ? 1 : 0;
  } else if (submission.kind == SubmissionKind::kPut) {
    operation.pages = static_cast<uint32_t>(submission.puts.size());
    operation.paged = find_paged(submission.puts, &PutRequest::source);
    operation.put_number = ++put_count_;
    if (operation.pages > 0) open_puts_.push_back(put_count_);
    operation.may_begin = submission.behind == nullptr;
    submission.results.assign(operation.pages, {});
  } else {
    operation.pages = 1;
    operation.put_number = put_count_;
  }
  return operation;
}

bool GpuDriver::progress() {
  can_copy_ = copies_->take_thread() && !copies_->is_broken();
  if (copies_->is_broken()) is_broken_->store(true, std::memory_order_relaxed);
  due_ns_ = kNever;
  is_awaited_ = false;
  awaits_streams_ = false;
  landing_.begin_turn();
  leaving_.begin_turn();
  const bool has_moved = lane_.progress();
  if (last_hop_->counts() != last_hop_told_) tell_of_last_hop();
  if (straight_ != nullptr) straight_->check_copies(may_check());
  std::erase_if(let_go_, [this](uint32_t block) {
    Portion& portion = portions_[block];
    if (!portion.has_left_block()) return false;
    portion.put = {};
    (block < landing_blocks_ ? landing_ : leaving_).give_back(block);
    return true;
  });
  return has_moved;
}

bool GpuDriver::go_on(Operation& operation, Submission& submission) {
  if (operation.released()) return false;
  if (submission.kind == SubmissionKind::kFlush) return go_on_flush(operation, submission);
  Turn turn = {operation, submission};
  // A copy that has ended by the deadline is seen before the clock says that it has come.
  for (uint32_t block = operation.portions; block != kNone; block = portions_[block].next) {
    Portion& portion = portions_[block];
    if (portion.has_copies) portion.copies = copies_->poll(block);
  }
  if (!operation.may_begin) operation.may_begin = can_copy_ && may_begin_put(submission);
  turn.now_ns = clock_->now_ns();
  if (copying_since_ns() > 0) look_at_stall(turn.now_ns);
  const bool was_done = operation.done();
  for (uint32_t* link = &operation.portions; *link != kNone;) {
    const uint32_t block = *link;
    Portion& portion = portions_[block];
    end_copies(turn, portion, block);
    if (turn.is_put()) {
      take_results(turn, portion);
    } else {
      take_landed(turn, portion, block);
    }
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
  const bool is_begun = operation.begun == operation.pages || operation.portions != kNone;
  blocks_of(turn).set_hungry(operation.hunger, operation.may_begin && !is_begun);
  if (!operation.done()) {
    is_awaited_ = true;
    // Who writes a put's pages tells of their end, which is soon.
    due_ns_ = std::min(due_ns_, turn.is_late() ? turn.now_ns + kLookNs : submission.deadline_ns);
  } else if (turn.is_put() && !was_done) {
    std::erase(open_puts_, operation.put_number);
  }
  return turn.has_moved;
}

void GpuDriver::look_at_stall(uint64_t now_ns) {
  copies_->look_at_doubts(now_ns);
  const uint64_t stalled_ns = now_ns - copying_since_ns();
  if (stalled_ns < kStallNs) return;
  stalls_.warn([&] {
    return fmt::format(
        "cuda:{} has not ended its copies for {} s: tickets whose pages they use, and the client's "
        "end, wait for it",
        copies_->context()->device(), stalled_ns / kSecond);
  });
}

void GpuDriver::warn_of_failure() {
  failures_.warn([this] {
    return fmt::format("pages were not copied to cuda:{}, or from there: {}",
                       copies_->context()->device(), copies_->why());
  });
}

void GpuDriver::begin_portions(Turn& turn) {
  Operation& operation = turn.operation;
  const auto lose_next = [&](Loss loss) { lose(turn, operation.begun++, loss); };
  if (!can_copy_ && operation.begun < operation.pages) warn_of_failure();
  while (operation.begun < operation.pages) {
    if (turn.is_late()) {
      lose_next(operation.may_begin ? Loss::kNoBlock : Loss::kStream);
    } else if (!can_copy_) {
      lose_next(Loss::kGpu);
    } else if (turn.on_gpu(operation.begun).bytes > block_bytes_) {
      lose_next(Loss::kTooLong);  // no node has pages of this length
    } else if (!operation.may_begin) {
      awaits_streams_ = true;
      return;
    } else if (blocks_of(turn).may_take(operation.hunger)) {
      begin_portion(turn);
    } else {
      return;
    }
  }
}

void GpuDriver::begin_portion(Turn& turn) {
  Operation& operation = turn.operation;
  Submission& submission = turn.submission;
  const uint32_t block = blocks_of(turn).take();
  Portion& portion = portions_[block];
  portion.begin(operation.begun);
  if (turn.is_put()) copies_->begin(block, cuda::CopyTo::kHost);
  const PagedRegion* const paged = operation.paged;
  const uint64_t room = paged == nullptr ? block_bytes_ : paged->portion_bytes();
  const uint64_t most_pages = paged == nullptr ? kMostPages : paged->portion_pages();
  uint64_t used = 0;
  while (operation.begun < operation.pages && portion.pages.size() < most_pages) {
    const uint32_t page = operation.begun;
    const Slice& on_gpu = turn.on_gpu(page);
    if (on_gpu.bytes > std::min(room, block_bytes_) - used) break;
    Slice in_block;
    if (on_gpu.bytes > 0) in_block = region_.slice(block * block_bytes_ + used, on_gpu.bytes);
    if (turn.is_put()) {
      portion.add(PutRequest{submission.puts[page].key, in_block});
      add_copies(turn, in_block, on_gpu);
    } else {
      const PageRequest& request = submission.requests[page];
      const bool is_long =
          straight_ != nullptr && paged == nullptr && on_gpu.bytes >= straight_bytes_;
      portion.add(PageRequest{request.key, request.min_version, in_block,
                              is_long ? reinterpret_cast<uint64_t>(on_gpu.data) : 0});
    }
    used += round_up(on_gpu.bytes, kAlignment);
    ++operation.begun;
  }
  portion.next = std::exchange(operation.portions, block);
  if (turn.is_put()) {
    copies_->end();
    count_copies(turn, portion);
  } else {
    portion.fetch =
        lane_.fetch(portion.requests, portion.verdicts, submission.deadline_ns, submission.options);
  }
  turn.has_moved = true;
}

void GpuDriver::add_copies(const Turn& turn, const Slice& in_block, const Slice& on_gpu) {
  if (on_gpu.bytes == 0) return;
  if (turn.operation.paged == nullptr) {
    copies_->add({in_block.data, reinterpret_cast<uint64_t>(on_gpu.data), on_gpu.bytes});
    return;
  }
  // Copies of two pages, or of two allocations, are none that go on.
  const cuda::PagedMemory& memory = turn.operation.paged->memory();
  const uint64_t offset = memory.block(on_gpu.data) * memory.block_stride();
  std::byte* host = in_block.data;
  for (const cuda::PagedMemory::Run& run : memory.runs()) {
    copies_->add_apart({host, run.address + offset, run.bytes});
    host += run.bytes;
  }
}

// They were started now.
void GpuDriver::count_copies(Turn& turn, Portion& portion) {
  portion.has_copies = true;
  portion.copies = cuda::BatchState::kUnderWay;
  ++copying_;
  started_ns_ = turn.now_ns;
  turn.has_moved = true;
}

void GpuDriver::end_copies(Turn& turn, Portion& portion, uint32_t block) {
  if (!portion.has_copies || portion.copies == cuda::BatchState::kUnderWay) return;
  portion.has_copies = false;
  --copying_;
  turn.has_moved = true;
  if (portion.copies == cuda::BatchState::kFailed) warn_of_failure();
  if (turn.is_put()) {
    end_copies_from_gpu(turn, portion);
  } else {
    end_copies_to_gpu(turn, portion, block);
  }
}

// What is on its way to or from the device goes on all the same. The lane, and who writes a put's
// pages to the nodes, say by the deadline what became of the others.
void GpuDriver::decide_late(Turn& turn, Portion& portion) {
  for (uint32_t i = 0; i < portion.pages.size(); ++i) {
    if (portion.pages[i] != Portion::Page::kCopying) continue;
    portion.pages[i] = Portion::Page::kOver;
    lose(turn, portion.first + i, Loss::kLate, Place::kHeld);
  }
}

void GpuDriver::lose(Turn& turn, uint32_t page, Loss loss, Place place) {
  if (turn.is_put()) {
    lose_put(turn, page, loss);
  } else {
    lose_fetched(turn, page, loss, place);
  }
}

void GpuDriver::finish(Submission& submission) {
  submission.behind.reset();  // here, where its context is current
  if (submission.kind != SubmissionKind::kFetch) return;
  fenced_ -= submission.notification.fence != nullptr ? 1 : 0;
  count_told(submission, *counters_);
}

void GpuDriver::wait_idle(const SubmissionPool& pool, uint32_t rings) {
  if (let_go_.empty()) return pool.sleep(rings);
  wait(kNever);
}

void GpuDriver::wait(uint64_t until_ns) {
  until_ns = std::min(until_ns, due_ns_);
  // Nothing tells that a put has released its block, either.
  const bool lends =
      std::ranges::any_of(let_go_, [this](uint32_t block) { return block >= landing_blocks_; });
  const uint64_t since_ns = copying_since_ns();
  const bool is_copying = since_ns > 0;
  if (is_copying || lends || awaits_streams_) {
    const uint64_t now_ns = clock_->now_ns();
    if (is_copying && is_awaited_ && now_ns - since_ns < kKeepCoreNs) {
      ::sched_yield();
      return;
    }
    uint64_t look_ns = kLateLookNs;
    if (is_copying && is_awaited_) {
      look_ns = std::clamp((now_ns - since_ns) / kLookShare, kLookNs, kLateLookNs);
    }
    if (leaving_.are_wanted() || awaits_streams_) look_ns = kLookNs;
    until_ns = std::min(until_ns, now_ns + look_ns);
  }
  lane_.wait(until_ns);
}

}  // namespace farpage
