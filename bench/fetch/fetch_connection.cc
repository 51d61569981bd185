#include "bench/fetch/fetch_connection.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "replay/page_content.h"

namespace farpage {
namespace {

constexpr uint64_t kWarmUpNs = 30 * kSecond;
constexpr uint64_t kFetchesBeforeImpossible = 100;
constexpr uint64_t kMaxCheckedBytes = 64 * kMiB;  // of each fetch that is compared

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

}  // namespace

Result<std::unique_ptr<FetchConnection>> FetchConnection::open(Client& client,
                                                               const FetchBenchOptions& options,
                                                               std::span<const PageKey> keys,
                                                               uint64_t seed) {
  auto memory = LandingMemory::create(
      client, options.depth * options.batch * round_up(options.page_bytes, 64));
  if (!memory) return tl::unexpected(memory.error());
  Result<Lane> lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  return std::unique_ptr<FetchConnection>(
      new FetchConnection(client, options, keys, seed, std::move(*memory), std::move(*lane)));
}

FetchConnection::FetchConnection(Client& client, const FetchBenchOptions& options,
                                 std::span<const PageKey> keys, uint64_t seed, LandingMemory memory,
                                 Lane lane)
    : client_(client),
      options_(options),
      keys_(keys),
      draw_(options.in_put_order, seed, keys.size()),
      impossible_draw_(seed),
      phase_draw_(draw_),
      memory_(std::move(memory)),
      lane_(std::move(lane)),
      slots_(options.depth) {
  const uint64_t stride = round_up(options_.page_bytes, 64);
  uint64_t offset = 0;
  for (Slot& slot : slots_) {
    slot.requests.resize(options_.batch);
    slot.verdicts.resize(options_.batch);
    for (PageRequest& request : slot.requests) {
      request.destination = memory_.region.slice(offset, options_.page_bytes);
      offset += stride;
    }
  }
}

void FetchConnection::warm_up(size_t begin, size_t end) {
  for (size_t next = begin; next < end;) {
    for (Slot& slot : slots_) {
      const size_t count = std::min(options_.batch, end - next);
      for (size_t i = 0; i < count; ++i) slot.requests[i].key = keys_[next + i];
      next += count;
      slot.fetch =
          lane_.fetch(std::span(slot.requests).first(count), std::span(slot.verdicts).first(count),
                      client_.clock().now_ns() + kWarmUpNs);
    }
    for (Slot& slot : slots_) slot.fetch.wait();
  }
  for (int round = 0; round < 2; ++round) {
    for (Slot& slot : slots_) start(slot);
    for (Slot& slot : slots_) slot.fetch.wait_released(kNever);
  }
}

void FetchConnection::fetch_one(const PageKey& key) {
  Slot& slot = slots_.front();
  slot.requests.front().key = key;
  slot.fetch = lane_.fetch(std::span(slot.requests).first(1), std::span(slot.verdicts).first(1),
                           client_.clock().now_ns() + kWarmUpNs);
  slot.fetch.wait();
}

bool FetchConnection::find_addresses() {
  addresses_.clear();
  addresses_.reserve(keys_.size());
  for (const PageKey& key : keys_) {
    const std::byte* address = lane_.mapped_payload(key);
    if (address == nullptr) {
      // Its location has dropped out of the client's table: a look at the page brings it back.
      fetch_one(key);
      address = lane_.mapped_payload(key);
    }
    if (address == nullptr) return false;
    addresses_.push_back(address);
  }
  return addresses_are_valid();
}

// A lane that had to open its path to a node again has mapped that node's pool anew, and the old
// mapping is gone.
bool FetchConnection::addresses_are_valid() const {
  return std::ranges::equal(keys_, addresses_, {},
                            [this](const PageKey& key) { return lane_.mapped_payload(key); });
}

void FetchConnection::draw_keys(Slot& slot) {
  draw_.begin_fetch();
  for (PageRequest& request : slot.requests) request.key = keys_[draw_.page()];
}

// How much time the slot's next fetch has.
uint64_t FetchConnection::draw_time_ns(Slot& slot) {
  if (impossible_ns_ == 0 && totals_.fetch_ns.count() >= kFetchesBeforeImpossible) {
    impossible_ns_ =
        std::max<uint64_t>(static_cast<uint64_t>(totals_.fetch_ns.quantile(0.5)) / 10, 1);
  }
  slot.is_impossible = options_.impossible_share > 0 && impossible_ns_ > 0 &&
                       impossible_draw_.unit() < options_.impossible_share;
  return slot.is_impossible ? impossible_ns_ : options_.deadline_us * kMicrosecond;
}

void FetchConnection::start(Slot& slot) {
  draw_keys(slot);
  const uint64_t time_ns = draw_time_ns(slot);
  slot.start_ns = now_ns();
  slot.fetch = lane_.fetch(slot.requests, slot.verdicts, client_.clock().now_ns() + time_ns,
                           {.hedge = options_.hedge});
}

void FetchConnection::finish(Slot& slot) {
  slot.fetch.wait();
  if (slot.is_impossible) {
    ++totals_.impossible_fetches;
    totals_.impossible_ready += static_cast<uint64_t>(
        std::ranges::count(slot.verdicts, Verdict::kReady, &PageVerdict::verdict));
    return;
  }
  totals_.fetch_ns.add(static_cast<double>(now_ns() - slot.start_ns));
  ++totals_.fetches;
  for (const PageVerdict& verdict : slot.verdicts) {
    if (verdict.verdict == Verdict::kReady) {
      ++totals_.ready;
    } else {
      ++totals_.recompute[static_cast<size_t>(verdict.reason)];
    }
  }
}

// The first of those whose places may be used again, in the order in which they were finished. One
// that a read may still write to holds up no other: nothing, while there are others under way.
FetchConnection::Slot* FetchConnection::take_released() {
  const auto is_released = [](const Slot* slot) { return slot->fetch.released(); };
  auto found = std::ranges::find_if(finished_, is_released);
  if (found == finished_.end()) {
    if (!under_way_.empty()) return nullptr;
    found = finished_.begin();
    (*found)->fetch.wait_released(kNever);
  }
  Slot* slot = *found;
  finished_.erase(found);
  return slot;
}

void FetchConnection::finish_oldest() {
  Slot* slot = under_way_.front();
  under_way_.pop_front();
  finish(*slot);
  finished_.push_back(slot);
}

void FetchConnection::fetch_for(double seconds) {
  phase_draw_ = draw_;
  phase_fetches_ = 0;
  const uint64_t begin = now_ns();
  const uint64_t end = begin + static_cast<uint64_t>(seconds * 1e9);
  finished_.clear();
  for (Slot& slot : slots_) finished_.push_back(&slot);
  do {
    while (Slot* slot = take_released()) {
      start(*slot);
      under_way_.push_back(slot);
      ++phase_fetches_;
    }
    finish_oldest();
  } while (now_ns() < end);
  while (!under_way_.empty()) finish_oldest();
  totals_.fetch_seconds += static_cast<double>(now_ns() - begin) * 1e-9;
  for (Slot& slot : slots_) slot.fetch.wait_released(kNever);
  for (const Slot& slot : slots_) check(slot);
}

void FetchConnection::check(const Slot& slot) {
  const size_t count =
      std::clamp<size_t>(kMaxCheckedBytes / options_.page_bytes, 1, options_.batch);
  for (size_t i = 0; i < count; ++i) {
    // A sample of a fetch that is too large is spread over all of it.
    const size_t index = i * options_.batch / count;
    if (slot.verdicts[index].verdict != Verdict::kReady) continue;
    ++totals_.checked_pages;
    totals_.wrong_bytes += count_wrong_bytes({slot.verdicts[index].landed, options_.page_bytes},
                                             slot.requests[index].key, {1, 1});
  }
}

void FetchConnection::copy_again() {
  if (!addresses_are_valid() && !find_addresses()) return;
  PageDraw draw = phase_draw_;
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < phase_fetches_; ++i) {
    draw.begin_fetch();
    for (const PageRequest& request : slots_[i % slots_.size()].requests) {
      std::memcpy(request.destination.data, addresses_[draw.page()], options_.page_bytes);
    }
  }
  totals_.copy_seconds += static_cast<double>(now_ns() - begin) * 1e-9;
  totals_.copied_pages += phase_fetches_ * options_.batch;
}

}  // namespace farpage
