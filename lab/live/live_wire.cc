#include "lab/live/live_wire.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "replay/page_content.h"

namespace farpage::live {
namespace {

constexpr uint64_t kCompareNs = kMillisecond / 2;  // a page, and to spare

}  // namespace

LiveWire::LiveWire(const Client& client, Lane& demands, Lane& ahead, PagePool& pool,
                   std::span<const PageKey> keys, const LiveWireOptions& options, Idle idle)
    : client_(client),
      demands_(demands),
      keys_(keys),
      options_(options),
      idle_(std::move(idle)),
      places_(keys.size()),
      next_batch_(std::make_unique<Batch>()),
      ahead_(ahead, options.most_ahead) {
  while (std::optional<PageLease> frame = pool.take()) {
    // Touched here, so that no fetch pays for the memory's first use.
    std::fill_n(frame->slice().data, options.page_bytes, std::byte{0});
    free_.push_back(static_cast<uint32_t>(frames_.size()));
    frames_.push_back(std::move(*frame));
  }
}

// As long as there are frames left for all that two steps may demand.
bool LiveWire::begin(PageNumber page) {
  if (ahead_.under_way() == options_.most_ahead) return false;
  compare_until(2 * options_.step_pages + 1);
  if (free_.size() <= 2 * options_.step_pages) return false;
  place(page);
  ahead_.begin(page, {keys_[page], 0, frames_[places_[page].frame].slice()},
               now_ns() + options_.deadline_ns);
  return true;
}

void LiveWire::demand(PageNumber page) {
  if (places_[page].demands++ > 0) return;
  place(page);
  next_batch_->pages.push_back(page);
}

void LiveWire::send() {
  Batch& batch = *next_batch_;
  if (batch.pages.empty()) return;
  batch.requests.clear();
  for (const PageNumber page : batch.pages) {
    batch.open.push_back(static_cast<uint32_t>(batch.requests.size()));
    batch.requests.push_back({keys_[page], 0, frames_[places_[page].frame].slice()});
  }
  batch.verdicts.assign(batch.pages.size(), {});
  // So that each can be made again elsewhere. Frames are few only while some may still be written
  // to, and that ends.
  compare_until(2 * options_.step_pages);
  while (free_.size() < 2 * options_.step_pages && !batches_.empty()) drive();
  batch.deadline_ns = now_ns() + options_.deadline_ns;
  batch.fetch = demands_.fetch(batch.requests, batch.verdicts, batch.deadline_ns);
  batches_.push_back(std::move(next_batch_));
  if (spare_.empty()) spare_.push_back(std::make_unique<Batch>());
  next_batch_ = std::move(spare_.back());
  spare_.pop_back();
}

std::optional<vtime::Wire::Landed> LiveWire::next(uint64_t until_ns) {
  while (true) {
    if (landed_.empty()) drive();
    if (!landed_.empty()) {
      const Landed landed = landed_.front();
      landed_.pop_front();
      return landed;
    }
    const uint64_t now = now_ns();
    if (now >= until_ns) return std::nullopt;
    const bool is_time_left = batches_.empty() && until_ns - now > kCompareNs;
    if (is_time_left && !left_.empty()) {
      compare_left();
    } else {
      idle_(until_ns);
    }
  }
}

void LiveWire::make(PageNumber page) {
  place(page);
  fill_page(bytes_of(places_[page].frame), keys_[page], kPutNumber);
}

void LiveWire::forget(PageNumber page) {
  uint32_t& frame = places_[page].frame;
  if (frame != kNone) left_.push_back({page, std::exchange(frame, kNone)});
}

// The oldest of those that were forgotten.
void LiveWire::compare_left() {
  compare(left_.front());
  free_.push_back(left_.front().frame);
  left_.pop_front();
}

void LiveWire::compare_until(uint64_t free_frames) {
  while (free_.size() < free_frames && !left_.empty()) compare_left();
}

void LiveWire::place(PageNumber page) {
  uint32_t& frame = places_[page].frame;
  if (frame != kNone) return;
  compare_until(1);
  FARPAGE_CHECK(!free_.empty());
  frame = free_.back();
  free_.pop_back();
}

// As long as what is demanded comes, what was fetched ahead waits.
void LiveWire::drive() {
  const bool has_moved = !batches_.empty() && demands_.progress();
  if (!has_moved) ahead_.progress();
  while (const auto ended = ahead_.next()) {
    const auto page = static_cast<PageNumber>(ended->tag);
    const bool is_whole = ended->verdict.verdict == Verdict::kReady;
    if (!is_whole) {
      free_.push_back(std::exchange(places_[page].frame, kNone));
    }
    landed_.push_back({page, false, is_whole});
  }
  for (size_t i = 0; i < batches_.size();) {
    drive(*batches_[i]);
    if (!batches_[i]->open.empty() || !batches_[i]->fetch.released()) {
      ++i;
      continue;
    }
    std::unique_ptr<Batch> over = std::move(batches_[i]);
    batches_.erase(batches_.begin() + static_cast<ptrdiff_t>(i));
    free_.insert(free_.end(), over->parked.begin(), over->parked.end());
    over->parked.clear();
    over->pages.clear();
    over->fetch = Fetch();
    spare_.push_back(std::move(over));
  }
}

void LiveWire::drive(Batch& batch) {
  for (size_t i = 0; i < batch.open.size();) {
    const uint32_t index = batch.open[i];
    if (batch.verdicts[index].verdict == Verdict::kPending) {
      ++i;
      continue;
    }
    batch.open[i] = batch.open.back();
    batch.open.pop_back();
    settle(batch, index);
  }
}

void LiveWire::settle(Batch& batch, uint32_t index) {
  const PageNumber page = batch.pages[index];
  const PageVerdict& verdict = batch.verdicts[index];
  const uint64_t now = now_ns();
  counts_.lateness_max_ns =
      std::max(counts_.lateness_max_ns, now - std::min(now, batch.deadline_ns));
  const bool is_ready = verdict.verdict == Verdict::kReady;
  if (!is_ready) {
    ++counts_.recompute[static_cast<size_t>(verdict.reason)];
    if (verdict.place == Place::kHeld) {
      batch.parked.push_back(std::exchange(places_[page].frame, kNone));
    }
    make(page);
  }
  uint32_t& demands = places_[page].demands;
  for (; demands > 0; --demands) landed_.push_back({page, true, is_ready});
}

const LiveCounts& LiveWire::end() {
  for (; ahead_.under_way() > 0; idle_(kNever)) drive();
  while (!left_.empty()) compare_left();
  for (PageNumber page = 0; page < places_.size(); ++page) {
    if (places_[page].frame != kNone) compare({page, places_[page].frame});
  }
  return counts_;
}

// Not while a step waits, as far as there are frames enough; and what was written since it landed
// is found too.
void LiveWire::compare(const Left& left) {
  counts_.wrong_bytes +=
      count_wrong_bytes(bytes_of(left.frame), keys_[left.page], {kPutNumber, kPutNumber});
}

std::span<std::byte> LiveWire::bytes_of(uint32_t frame) const {
  return {frames_[frame].slice().data, options_.page_bytes};
}

}  // namespace farpage::live
