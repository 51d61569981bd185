// Of GpuDriver: what fetches alone do.

#include <fmt/format.h>

#include "client/gpu/gpu_driver.h"

namespace farpage {

bool GpuDriver::may_go_straight(const Portion& portion, uint32_t i) const {
  return !portion.requests.empty() && portion.requests[i].straight_to != 0;
}

// Until the lane's copy has ended.
void GpuDriver::take_held(Turn& turn, Portion& portion, uint32_t i) {
  const PageVerdict& landed = portion.verdicts[i];
  if (landed.verdict == Verdict::kPending || landed.place == Place::kHeld) return;
  portion.pages[i] = Portion::Page::kOver;
  turn.submission.verdicts[portion.first + i].place = Place::kReleased;
  turn.has_moved = true;
}

// Good pages wait while a batch of the portion is under way: the next one has them all.
void GpuDriver::take_landed(Turn& turn, Portion& portion, uint32_t block) {
  uint32_t added = 0;
  for (uint32_t i = 0; i < portion.pages.size(); ++i) {
    const PageVerdict& landed = portion.verdicts[i];
    if (portion.pages[i] == Portion::Page::kHeld) take_held(turn, portion, i);
    if (portion.pages[i] != Portion::Page::kMoving || landed.verdict == Verdict::kPending) {
      continue;
    }
    const uint32_t page = portion.first + i;
    const Slice& to = turn.submission.requests[page].destination;
    const bool is_there = may_go_straight(portion, i) && landed.landed == to.data;
    const bool is_copied = landed.verdict == Verdict::kReady && to.bytes > 0;
    if (is_copied && !is_there && !turn.is_late() && can_copy_) {
      if (portion.has_copies) continue;
      if (added == 0 && !begin_copies_to_gpu(turn, portion, block)) continue;
      ++added;
      add_page(turn, portion, i, block);
      portion.pages[i] = Portion::Page::kCopying;
      continue;
    }
    const bool is_held = is_there && landed.place == Place::kHeld;
    portion.pages[i] = is_held ? Portion::Page::kHeld : Portion::Page::kOver;
    if (is_copied && (turn.is_late() || !is_there)) {
      lose(turn, page, turn.is_late() ? Loss::kLate : Loss::kGpu);
    } else {
      PageVerdict verdict = landed;
      if (!is_held) verdict.place = Place::kReleased;  // whatever may still write to the block
      if (verdict.verdict != Verdict::kReady) verdict.landed = nullptr;
      decide(turn, page, verdict);
    }
  }
  if (added == 0) return;
  client_->count_landed(is_on_gpu(block) ? gpu_landing_->place() : LandingPlace::kHost, added);
  start_copies_to_gpu(turn, portion);
}

// False: not yet, as batches before have all slots.
bool GpuDriver::begin_copies_to_gpu(Turn& turn, Portion& portion, uint32_t block) {
  PagedRegion* const paged = turn.operation.paged;
  cuda::PageScatter* const scatter = paged != nullptr && fenced_ == 0 ? paged->scatter() : nullptr;
  if (scatter != nullptr && !scatter->has_slot()) return false;
  portion.scatter = scatter;
  if (scatter != nullptr) portion.slot = scatter->take_slot();
  copies_->begin(block, is_on_gpu(block) ? cuda::CopyTo::kOnDevice : cuda::CopyTo::kDevice);
  return true;
}

// Where the page lies in the GPU's memory, once the batch's copies have ended.
uint64_t GpuDriver::stage(const Portion& portion, const Slice& landed, uint32_t block) {
  if (is_on_gpu(block)) return reinterpret_cast<uint64_t>(landed.data);
  const auto offset = static_cast<uint64_t>(landed.data - in_block(block, 0, 0).data);
  const uint64_t staged = portion.scatter->address(portion.slot) + offset;
  copies_->add({landed.data, staged, landed.bytes});
  return staged;
}

void GpuDriver::add_page(Turn& turn, Portion& portion, uint32_t i, uint32_t block) {
  const Slice& from = portion.requests[i].destination;
  const Slice& to = turn.submission.requests[portion.first + i].destination;
  PagedRegion* const paged = turn.operation.paged;
  if (portion.scatter != nullptr) {
    const PageVerdict& landed = portion.verdicts[i];
    portion.scatter->add(portion.slot,
                         {portion.requests[i].key, landed.version, landed.payload_crc,
                          stage(portion, from, block), paged->memory().block(to.data)});
    return;
  }
  add_copies(turn, from, to);
  const auto address = reinterpret_cast<uint64_t>(to.data);
  if (paged == nullptr && may_check() && cuda::CopyChecks::can_check(address)) {
    checks_.push_back({address, static_cast<uint32_t>(to.bytes)});
  }
}

void GpuDriver::start_copies_to_gpu(Turn& turn, Portion& portion) {
  portion.is_checked = !checks_.empty();
  if (portion.scatter == nullptr) {
    copies_->end(checks_);
  } else if (!copies_->end(*portion.scatter, portion.slot) && !copies_->is_broken()) {
    turn.operation.paged->scatter_by_copies();
    log_warning(
        fmt::format("cuda:{} takes pages to their blocks by copies of each piece from now on, and "
                    "does not check them there, as the driver refuses the kernel: {}",
                    copies_->context()->device(), copies_->why()));
  }
  checks_.clear();
  count_copies(turn, portion);
}

void GpuDriver::end_copies_to_gpu(Turn& turn, Portion& portion, uint32_t block) {
  const bool has_failed = portion.copies == cuda::BatchState::kFailed;
  uint32_t checked = 0;
  for (uint32_t i = 0; i < portion.pages.size(); ++i) {
    const uint32_t page = portion.first + i;
    if (portion.pages[i] == Portion::Page::kHeld) continue;
    turn.submission.verdicts[page].place = Place::kReleased;  // of one that was late, too
    if (portion.pages[i] != Portion::Page::kCopying) continue;
    portion.pages[i] = Portion::Page::kOver;
    if (has_failed) {
      lose(turn, page, Loss::kGpu);
    } else if (!is_right(turn, portion, i, block, checked)) {
      lose(turn, page, Loss::kSpoiled);
    } else if (turn.is_late()) {
      lose(turn, page, Loss::kLate);
    } else {
      PageVerdict verdict = portion.verdicts[i];
      verdict.landed = turn.submission.requests[page].destination.data;
      decide(turn, page, verdict);
    }
  }
  if (portion.scatter != nullptr) portion.scatter->give_back(portion.slot);
  portion.scatter = nullptr;
}

bool GpuDriver::is_right(const Turn& turn, const Portion& portion, uint32_t i, uint32_t block,
                         uint32_t& checked) {
  const Slice& to = turn.submission.requests[portion.first + i].destination;
  const Slice& from = portion.requests[i].destination;
  // No CPU looks at what lies in the GPU's memory.
  const std::span<const std::byte> source(from.data, is_on_gpu(block) ? 0 : from.bytes);
  const uint32_t crc = portion.verdicts[i].payload_crc;
  if (portion.scatter != nullptr) {
    return last_hop_->judge(portion.scatter->is_written(portion.slot, checked++), crc, source);
  }
  const bool is_checked =
      portion.is_checked && cuda::CopyChecks::can_check(reinterpret_cast<uint64_t>(to.data));
  return !is_checked || last_hop_->is_right(*copies_, block, checked++, crc, source);
}

void GpuDriver::tell_of_last_hop() {
  const LastHop::Counts& now = last_hop_->counts();
  const uint64_t spoiled = now.spoiled - last_hop_told_.spoiled;
  const uint64_t unchecked = now.unchecked - last_hop_told_.unchecked;
  client_->count_copies_checked(now.checked - last_hop_told_.checked, spoiled);
  last_hop_told_ = now;
  const int device = copies_->context()->device();
  if (spoiled > 0) {
    spoils_.warn([&] {
      return fmt::format(
          "{} pages had other bytes in the memory of cuda:{} than where they were copied from, and "
          "were not used: look for errors of its memory and of PCIe (nvidia-smi -q -d ECC,PCI)",
          spoiled, device);
    });
  }
  if (unchecked > 0) {
    failures_.warn([&] {
      return fmt::format("cuda:{} did not check {} pages that were copied to it: {}", device,
                         unchecked, copies_->why());
    });
  }
}

void GpuDriver::lose_fetched(Turn& turn, uint32_t page, Loss loss, Place place) {
  PageVerdict verdict;
  verdict.verdict = Verdict::kRecompute;
  verdict.reason = loss == Loss::kGpu       ? Reason::kUnreachable
                   : loss == Loss::kTooLong ? Reason::kMiss
                   : loss == Loss::kSpoiled ? Reason::kCorrupt
                                            : Reason::kStalled;
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

}  // namespace farpage
