// Of GpuDriver: what puts alone do, and flushes of them.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/gpu/gpu_driver.h"
#include "transport/cuda/recorded_event.h"

namespace farpage {

bool GpuDriver::may_begin_put(const Submission& submission) {
  return copies_->has_passed(submission.behind->get());
}

bool GpuDriver::go_on_flush(Operation& operation, Submission& submission) {
  const bool are_done = open_puts_.empty() || open_puts_.front() > operation.put_number;
  if (!are_done && clock_->now_ns() < submission.deadline_ns) {
    due_ns_ = std::min(due_ns_, submission.deadline_ns);
    return false;
  }
  if (!are_done) submission.code = Code::kTimeout;
  operation.decided = operation.pages;
  return true;
}

void GpuDriver::begin_copies_from_gpu(Turn& turn, Portion& portion, uint32_t block) {
  if (!start_gather(turn, portion, block)) {
    copies_->begin(block, cuda::CopyTo::kHost);
    for (uint32_t i = 0; i < portion.pages.size(); ++i) {
      add_copies(turn, portion.puts[i].source, turn.on_gpu(portion.first + i));
    }
  }
  copies_->end();
  count_copies(turn, portion);
}

// By a kernel, and a copy behind it. False: by copies alone. So it is while the kernel might wait
// for what waits at a fence, and while all slots are taken: the GPU may have no processor for the
// kernels.
bool GpuDriver::start_gather(Turn& turn, Portion& portion, uint32_t block) {
  PagedRegion* const paged = turn.operation.paged;
  cuda::PageGather* const gather = paged != nullptr && fenced_ == 0 ? paged->gather() : nullptr;
  if (gather == nullptr || !gather->has_slot()) return false;
  const uint32_t slot = gather->take_slot();
  std::byte* const begin = in_block(block, 0, 0).data;
  uint64_t bytes = 0;  // until the last page's end
  for (uint32_t i = 0; i < portion.pages.size(); ++i) {
    const Slice& to = portion.puts[i].source;
    if (to.bytes == 0) continue;
    const auto offset = static_cast<uint64_t>(to.data - begin);
    gather->add(slot, paged->memory().block(turn.on_gpu(portion.first + i).data), offset);
    bytes = offset + to.bytes;
  }
  copies_->begin(block, cuda::CopyTo::kHost, gather->stream(slot));
  if (!copies_->succeeds(gather->start(slot), "farpage_gather_pages")) {
    gather->give_back(slot);
    paged->gather_by_copies();
    if (copies_->is_broken()) return false;
    log_warning(fmt::format(
        "cuda:{} takes pages from their blocks by copies of each piece from now on, as the driver "
        "refuses the kernel: {}",
        copies_->context()->device(), copies_->why()));
    return false;
  }
  copies_->add({begin, gather->address(slot), bytes});
  portion.gather = gather;
  portion.slot = slot;
  return true;
}

// Of a batch that failed some pages may be whole, and nothing says which.
void GpuDriver::end_copies_from_gpu(Turn& turn, Portion& portion) {
  Loss loss = portion.copies == cuda::BatchState::kFailed ? Loss::kGpu : Loss::kLate;
  bool are_there = portion.copies == cuda::BatchState::kCopied;
  if (portion.gather != nullptr) {
    if (are_there && !portion.gather->are_there(portion.slot)) {
      are_there = false;
      loss = Loss::kSpoiled;
    }
    std::exchange(portion.gather, nullptr)->give_back(portion.slot);
  }
  if (loss == Loss::kSpoiled) warn_of_spoiled_work();
  if (portion.pages.front() == Portion::Page::kOver) return;  // it was late
  if (are_there && !turn.is_late()) return put_from_block(turn, portion);
  for (uint32_t i = 0; i < portion.pages.size(); ++i) {
    portion.pages[i] = Portion::Page::kOver;
    lose(turn, portion.first + i, loss);
  }
}

void GpuDriver::warn_of_spoiled_work() {
  spoils_.warn([this] {
    return fmt::format(
        "cuda:{} read its work on some pages wrongly, and they were not put: look for errors of "
        "PCIe (nvidia-smi -q -d PCI)",
        copies_->context()->device());
  });
}

void GpuDriver::put_from_block(Turn& turn, Portion& portion) {
  Submission* const put = puts_->take();  // there is one for each block
  put->kind = SubmissionKind::kPut;
  put->puts.assign(portion.puts.begin(), portion.puts.end());
  put->deadline_ns = turn.submission.deadline_ns;
  put->notification.callback = [](void* driver) { static_cast<GpuDriver*>(driver)->interrupt(); };
  put->notification.context = this;
  portion.put = Ticket(puts_, *put);
  std::ranges::fill(portion.pages, Portion::Page::kMoving);
  writes_->submit(*put);
}

void GpuDriver::take_results(Turn& turn, Portion& portion) {
  if (portion.pages.front() != Portion::Page::kMoving || !portion.put.done()) return;
  std::ranges::copy(portion.put.results(), turn.submission.results.begin() + portion.first);
  if (turn.submission.why.empty()) turn.submission.why = portion.put.why();
  std::ranges::fill(portion.pages, Portion::Page::kOver);
  turn.operation.decided += static_cast<uint32_t>(portion.pages.size());
  turn.has_moved = true;
}

void GpuDriver::lose_put(Turn& turn, uint32_t page, Loss loss) {
  const int device = copies_->context()->device();
  Error why;
  switch (loss) {
    case Loss::kStream:
      why = {
          Code::kTimeout,
          fmt::format("the stream of cuda:{} had not come so far by the put's deadline", device)};
      break;
    case Loss::kNoBlock:
      why = {Code::kTimeout,
             fmt::format("no time was left to copy the page from cuda:{}: puts before it may have "
                         "the bounce memory (gpu.bounce_bytes)",
                         device)};
      break;
    case Loss::kLate:
      why = {Code::kTimeout, fmt::format("cuda:{} had not copied the page by the put's deadline, "
                                         "so it was not put",
                                         device)};
      break;
    case Loss::kSpoiled:
      why = {
          Code::kUnavailable,
          fmt::format("cuda:{} read its work on some pages wrongly, so they were not put", device)};
      break;
    case Loss::kGpu:
      why = {Code::kUnavailable,
             fmt::format("the page was not copied from cuda:{}: {}", device, copies_->why())};
      break;
    case Loss::kTooLong:
      why = {Code::kInvalid,
             fmt::format("a page of {} bytes does not fit: the nodes' pages have 1 to {} bytes",
                         turn.on_gpu(page).bytes, client_->page_bytes())};
      break;
  }
  turn.submission.results[page] = {why.code, 0};
  if (turn.submission.why.empty()) turn.submission.why = std::move(why.message);
  client_->count_puts_failed(1);
  ++turn.operation.decided;
  turn.has_moved = true;
}

}  // namespace farpage
