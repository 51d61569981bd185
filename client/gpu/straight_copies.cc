#include "client/gpu/straight_copies.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "integrity/crc32c.h"

namespace farpage {
namespace {

// The GPU copies so many bytes while the processor checks the next.
constexpr uint64_t kBatchBytes = 256 * kKiB;

}  // namespace

StraightCopies::StraightCopies(cuda::CopyQueue& queue, uint32_t first_batch, const Clock& clock,
                               LastHop& last_hop)
    : queue_(queue),
      first_batch_(first_batch),
      clock_(clock),
      last_hop_(last_hop),
      registrar_(queue.context()) {
  waiting_.reserve(Lane::kPlaces);
  started_.reserve(Lane::kPlaces);
  ends_.reserve(Lane::kPlaces);
  copies_.reserve(Lane::kPlaces);
  checks_.reserve(Lane::kPlaces);
  for (uint32_t batch = kBatches; batch-- > 0;) free_.push_back(first_batch_ + batch);
}

std::shared_ptr<CopySource> StraightCopies::open(std::shared_ptr<const Mapping> pool) {
  return registrar_.add(std::move(pool));
}

void StraightCopies::begin(const PageCopy& copy) {
  FARPAGE_CHECK(waiting_.size() + started_.size() + ends_.size() < Lane::kPlaces);
  waiting_.push_back(copy);
}

size_t StraightCopies::poll(std::span<CheckEnd> ends) {
  if (!waiting_.empty()) start();
  if (!started_.empty()) take_ended();
  const size_t count = std::min(ends.size(), ends_.size());
  std::copy_n(ends_.begin(), count, ends.begin());
  ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void StraightCopies::end(const PageCopy& copy, CheckEnd::Outcome outcome) {
  ends_.push_back({outcome, copy.payload.tag});
}

bool StraightCopies::can_check(const PageCopy& copy) const {
  return copy.verify && are_checked_ && queue_.checks() != nullptr &&
         cuda::CopyChecks::can_check(copy.to);
}

// No copy is started at or after its deadline.
void StraightCopies::start() {
  const bool can_copy = queue_.take_thread() && !queue_.is_broken();
  uint64_t batch_bytes = 0;
  const auto start_batch = [&] {
    queue_.start(free_.back(), cuda::CopyTo::kDevice, copies_, checks_);
    free_.pop_back();
    copies_.clear();
    checks_.clear();
    batch_bytes = 0;
  };
  for (const PageCopy& copy : waiting_) {
    const PayloadCheck& payload = copy.payload;
    if (copy.verify && crc32c(0, payload.data, payload.bytes) != payload.crc) {
      end(copy, CheckEnd::Outcome::kBad);
      continue;
    }
    const uint64_t now_ns = clock_.now_ns();
    if (!can_copy || now_ns >= copy.deadline_ns) {
      end(copy, CheckEnd::Outcome::kFailed);
      continue;
    }
    // The driver reads there, and writes nothing.
    copies_.push_back({const_cast<std::byte*>(payload.data), copy.to, payload.bytes});
    const bool is_checked = can_check(copy);
    if (is_checked) checks_.push_back({copy.to, static_cast<uint32_t>(payload.bytes)});
    started_.push_back({free_.back(), is_checked, copy});
    started_ns_ = now_ns;
    batch_bytes += payload.bytes;
    const bool is_full = is_checked && checks_.size() == queue_.checks()->most_pages();
    if (is_full || batch_bytes >= kBatchBytes) start_batch();
  }
  if (!copies_.empty()) start_batch();
  waiting_.clear();
}

// The source stays until the copy has ended, of a batch that failed too.
void StraightCopies::take_ended() {
  auto kept = started_.begin();
  for (auto at = started_.begin(); at != started_.end();) {
    const uint32_t batch = at->batch;
    const cuda::BatchState state = queue_.poll(batch);
    const bool is_over = state != cuda::BatchState::kUnderWay;
    uint32_t checked = 0;
    const auto outcome = [&](const Started& started) {
      if (state == cuda::BatchState::kFailed) return CheckEnd::Outcome::kFailed;
      const PayloadCheck& payload = started.copy.payload;
      const bool is_right =
          !started.is_checked ||
          last_hop_.is_right(queue_, batch, checked++, payload.crc, {payload.data, payload.bytes});
      return is_right ? CheckEnd::Outcome::kGood : CheckEnd::Outcome::kBad;
    };
    for (; at != started_.end() && at->batch == batch; ++at) {
      if (is_over) {
        end(at->copy, outcome(*at));
      } else {
        if (kept != at) *kept = std::move(*at);
        ++kept;
      }
    }
    if (is_over) free_.push_back(batch);
  }
  started_.erase(kept, started_.end());
}

}  // namespace farpage
