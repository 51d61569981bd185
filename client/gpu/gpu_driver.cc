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
// A link of 400 Gb/s takes 0.7 ms for so much.
constexpr uint64_t kMostOnGpuBytes = 32 * kMiB;
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
  BlockCounts counts = {.landing = landing,
                        .leaving = static_cast<uint32_t>(round_up(landing, kPutShare) / kPutShare)};
  auto bounce = cuda::PinnedMemory::make(context, (landing + counts.leaving) * block_bytes);
  if (!bounce) {
    const bool is_short = bounce.error().code == Code::kExhausted;
    return fail(
        bounce.error().code,
        bounce.error().message + (is_short ? ": lower gpu.bounce_bytes, or free host memory" : ""));
  }
  auto region = client.register_memory({bounce->data(), bounce->bytes()});
  if (!region) return tl::unexpected(region.error());
  const auto on_gpu_blocks =
      static_cast<uint32_t>(std::clamp<uint64_t>(kMostOnGpuBytes / block_bytes, 1, landing));
  auto on_gpu = GpuLanding::open(client, context, options, on_gpu_blocks * block_bytes);
  if (!on_gpu) return tl::unexpected(on_gpu.error());
  counts.on_gpu = *on_gpu == nullptr ? 0 : on_gpu_blocks;
  const bool copies_straight = client.page_bytes() >= options.straight_bytes;
  const uint64_t batches = counts.all() + (copies_straight ? StraightCopies::kBatches : 0);
  auto copies = cuda::CopyQueue::make(context, static_cast<uint32_t>(batches));
  if (!copies) return tl::unexpected(copies.error());
  if (options.check_copies) add_checks(*copies);
  auto lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  lane->allow_interrupts();
  const uint32_t fetches = counts.landing + counts.on_gpu;
  if (fetches > Lane::kWindow) lane->reserve_fetches(fetches - Lane::kWindow);
  GpuDriver driver(client, writes, std::move(*bounce), std::move(*region), std::move(*on_gpu),
                   std::move(*copies), std::move(*lane), block_bytes, counts);
  if (copies_straight) driver.copy_straight(options.straight_bytes);
  return driver;
}

GpuDriver::GpuDriver(Client& client, WriteRunner& writes, cuda::PinnedMemory bounce, Region region,
                     std::unique_ptr<GpuLanding> on_gpu, cuda::CopyQueue copies, Lane lane,
                     uint64_t block_bytes, const BlockCounts& counts)
    : client_(&client),
      writes_(&writes),
      bounce_(std::move(bounce)),
      region_(std::move(region)),
      gpu_landing_(std::move(on_gpu)),
      copies_(std::make_unique<cuda::CopyQueue>(std::move(copies))),
      lane_(std::move(lane)),
      clock_(&client.clock()),
      block_bytes_(block_bytes),
      portions_(counts.all()),
      counts_(counts),
      landing_(0, counts.landing),
      on_gpu_(counts.landing, counts.on_gpu),
      leaving_(counts.landing + counts.on_gpu, counts.leaving),
      puts_(writes.make_pool({.queue_depth = counts.leaving})) {
  if (gpu_landing_ != nullptr) lane_.check_with(gpu_landing_->checkers());
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
  if (gpu_landing_ != nullptr) look_at_landing();
  due_ns_ = kNever;
  is_awaited_ = false;
  awaits_streams_ = false;
  landing_.begin_turn();
  on_gpu_.begin_turn();
  leaving_.begin_turn();
  const bool has_moved = lane_.progress();
  if (last_hop_->counts() != last_hop_told_) tell_of_last_hop();
  if (straight_ != nullptr) straight_->check_copies(may_check());
  std::erase_if(let_go_, [this](uint32_t block) {
    Portion& portion = portions_[block];
    if (!portion.has_left_block()) return false;
    portion.put = {};
    blocks_with(block).give_back(block);
    return true;
  });
  return has_moved;
}

// Work that waits at a fence may have all of the processors that a check needs.
void GpuDriver::look_at_landing() {
  cuda::LandedChecker& checker = gpu_landing_->checker();
  checker.allow(fenced_ == 0);
  if (checker.is_broken()) {
    can_copy_ = false;
    return is_broken_->store(true, std::memory_order_relaxed);
  }
  if (checker.refusals() == refusals_) return;
  const bool is_first = refusals_ == 0;
  refusals_ = checker.refusals();
  if (!is_first) return;
  log_warning(
      fmt::format("cuda:{}: pages land in the host's memory from now on, as the GPU did not check "
                  "those that had landed in its own: {}",
                  copies_->context()->device(), checker.why()));
}

// A fetch may wait for blocks of one kind alone.
void GpuDriver::choose_landing(Turn& turn) {
  const bool lands_on_gpu = counts_.on_gpu > 0 && fenced_ == 0 && refusals_ == 0;
  if (turn.operation.lands_on_gpu == lands_on_gpu) return;
  blocks_of(turn).set_hungry(turn.operation.hunger, false);
  turn.operation.lands_on_gpu = lands_on_gpu;
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
    const bool is_of_check = gpu_landing_ != nullptr && gpu_landing_->checker().is_broken();
    return fmt::format("pages were not copied to cuda:{}, or from there: {}",
                       copies_->context()->device(),
                       is_of_check ? gpu_landing_->checker().why() : copies_->why());
  });
}

void GpuDriver::begin_portions(Turn& turn) {
  Operation& operation = turn.operation;
  if (!turn.is_put()) choose_landing(turn);
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

Blocks& GpuDriver::blocks_with(uint32_t block) {
  if (is_of_put(block)) return leaving_;
  return is_on_gpu(block) ? on_gpu_ : landing_;
}

Slice GpuDriver::in_block(uint32_t block, uint64_t offset, uint64_t bytes) const {
  if (is_on_gpu(block)) {
    return gpu_landing_->slice((block - counts_.landing) * block_bytes_ + offset, bytes);
  }
  const uint32_t number = is_of_put(block) ? block - counts_.on_gpu : block;
  return region_.slice(number * block_bytes_ + offset, bytes);
}

void GpuDriver::begin_portion(Turn& turn) {
  Operation& operation = turn.operation;
  Submission& submission = turn.submission;
  const uint32_t block = blocks_of(turn).take();
  Portion& portion = portions_[block];
  portion.begin(operation.begun);
  const PagedRegion* const paged = operation.paged;
  const uint64_t room = paged == nullptr ? block_bytes_ : paged->portion_bytes();
  const uint64_t most_pages = paged == nullptr ? kMostPages : paged->portion_pages();
  uint64_t used = 0;
  while (operation.begun < operation.pages && portion.pages.size() < most_pages) {
    const uint32_t page = operation.begun;
    const Slice& on_gpu = turn.on_gpu(page);
    if (on_gpu.bytes > std::min(room, block_bytes_) - used) break;
    Slice place;
    if (on_gpu.bytes > 0) place = in_block(block, used, on_gpu.bytes);
    if (turn.is_put()) {
      portion.add(PutRequest{submission.puts[page].key, place});
    } else {
      const PageRequest& request = submission.requests[page];
      const bool is_long =
          straight_ != nullptr && paged == nullptr && on_gpu.bytes >= straight_bytes_;
      portion.add(PageRequest{request.key, request.min_version, place,
                              is_long ? reinterpret_cast<uint64_t>(on_gpu.data) : 0});
    }
    used += round_up(on_gpu.bytes, kAlignment);
    ++operation.begun;
  }
  portion.next = std::exchange(operation.portions, block);
  if (turn.is_put()) {
    begin_copies_from_gpu(turn, portion, block);
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
      std::ranges::any_of(let_go_, [this](uint32_t block) { return is_of_put(block); });
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
