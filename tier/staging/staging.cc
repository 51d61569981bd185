#include "tier/staging/staging.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/units.h"

namespace farpage {
namespace {

constexpr uint64_t kLongestWaitNs = 3'600 * kSecond;
constexpr size_t kPollBatch = 32;
// A lane that has not looked for this part of `read_window` has not seen that the channel was
// silent.
constexpr uint64_t kLooksPerReuse = 4;
// Between two looks of a put at a channel that another thread has: a lane wakes no waiter.
constexpr uint64_t kTurnLookNs = kMillisecond;

constexpr Status kSilent = {Code::kUnavailable, 0, "the staging's channel is silent"};

}  // namespace

Result<std::unique_ptr<Staging>> Staging::connect(Fabric& fabric, ChannelOffer offer,
                                                  RegionExport memory, const Clock& clock,
                                                  uint64_t reuse_ns, uint64_t deadline_ns) {
  auto channel = fabric.connect(std::move(offer), deadline_ns);
  if (!channel) return tl::unexpected(channel.error());
  const uint64_t bytes = memory.bytes;
  if (bytes < kTouchLogBytes) {
    return fail(Code::kProtocol, "the node's staging is too short for a touch log");
  }
  auto region = (*channel)->import_region(std::move(memory), {Access::kRemoteWrite, bytes});
  if (!region) return tl::unexpected(region.error());
  auto touches = TouchBlocks::Memory::create(fabric);
  if (!touches) return tl::unexpected(touches.error());
  return std::make_unique<Staging>(std::move(*touches), std::move(*channel), *region, bytes, clock,
                                   reuse_ns);
}

Staging::Staging(TouchBlocks::Memory touches, std::unique_ptr<Initiator> channel,
                 const RemoteRegion& region, uint64_t bytes, const Clock& clock, uint64_t reuse_ns)
    : ring_(bytes - kTouchLogBytes),
      clock_(clock),
      reuse_ns_(reuse_ns),
      region_(region),
      touches_(std::move(touches), region, bytes - kTouchLogBytes),
      channel_(std::move(channel)) {}

// Others write before: they may take until the deadline.
bool Staging::take_turn(uint64_t deadline_ns) {
  const uint64_t now = clock_.now_ns();
  if (now >= deadline_ns) return false;
  if (try_turn()) return true;
  const auto patience = std::chrono::nanoseconds(std::min(deadline_ns - now, kLongestWaitNs));
  const auto end = std::chrono::steady_clock::now() + patience;
  std::unique_lock lock(turn_mutex_);
  ++waiting_;
  bool taken = false;
  while (!taken && std::chrono::steady_clock::now() < end) {
    taken = turn_left_.wait_for(lock, std::chrono::nanoseconds(kTurnLookNs),
                                [this] { return try_turn(); });
  }
  --waiting_;
  lock.unlock();
  if (!taken || clock_.now_ns() < deadline_ns) return taken;
  leave_turn();
  return false;
}

// A block that was left meanwhile, by a lane that did not get the turn, is posted now.
void Staging::let_go() {
  taken_.store(false);
  while (!broken() && touches_.any_left() && try_turn()) {
    const bool all = post_touches();
    taken_.store(false);
    if (!all) return;  // the channel has no room: its next holder posts the rest
  }
}

// Takes the lock only if there is a waiter.
void Staging::leave_turn() {
  let_go();
  if (waiting_.load() == 0) return;
  { const std::lock_guard lock(turn_mutex_); }
  turn_left_.notify_one();
}

Staging::Written Staging::write(const Segment& segment, std::span<const Slice> sources,
                                uint64_t deadline_ns) {
  Written written;
  if (!take_turn(deadline_ns)) {
    written.status = {Code::kTimeout, 0, "the deadline came before the staging could be written"};
    return written;
  }
  const auto transfer = std::make_shared<Transfer>();
  transfer->deadline_ns_ = deadline_ns;
  transfer->segment_ = segment.id;
  transfer->first_tag_ = next_tag_;
  transfer->under_way_.assign(sources.size(), false);
  next_tag_ += sources.size();
  transfers_.push_back(transfer);
  written.status = write_in_turn(*transfer, segment, sources);
  if (broken()) {
    end();
  } else if (transfer->outstanding_ > 0) {
    transfer->late_ = true;
    written.under_way = transfer;
  } else {
    std::erase(transfers_, transfer);
  }
  leave_turn();
  return written;
}

// The next writes, as far as the channel has room.
void Staging::post_writes(Transfer& transfer, const Segment& segment,
                          std::span<const Slice> sources) {
  for (; begun_ < sources.size() && channel_->room() > 0; ++begun_) {
    const bool is_last = begun_ + 1 == sources.size();
    Operation& operation = channel_->next();
    operation = {};
    operation.kind = OperationKind::kWrite;
    operation.tag = transfer.first_tag_ + begun_;
    operation.deadline_ns = transfer.deadline_ns_;
    operation.follows = begun_ > 0;
    operation.remote = region_;
    operation.remote_offset = segment.offset + begun_bytes_;
    operation.local_count = 1;
    operation.local[0] = sources[begun_];
    operation.has_immediate = is_last;
    operation.immediate = segment.immediate;
    begun_bytes_ += round_up(sources[begun_].bytes, kStagingAlignment);
    transfer.under_way_[begun_] = true;
    ++transfer.outstanding_;
  }
  if (const Status status = channel_->post(); !status.ok()) fail_with(status);
}

Status Staging::write_in_turn(Transfer& transfer, const Segment& segment,
                              std::span<const Slice> sources) {
  const Status late = {Code::kTimeout, 0, "the staging was not written by the deadline"};
  const Status refused = {Code::kInvalid, 0, "a source is not of registered memory"};
  begun_ = begun_bytes_ = 0;
  size_t post_at = 0;  // so few of them under way are reason to post more
  const auto all_begun = [&] { return begun_ == sources.size(); };
  while (!broken()) {
    // Not between its writes, of which each follows the one before.
    if (begun_ == 0 || all_begun()) post_touches();
    if (!broken() && !all_begun() && !transfer.refused_ && transfer.outstanding_ <= post_at) {
      post_writes(transfer, segment, sources);
      post_at = transfer.outstanding_ / 2;
    }
    if (broken()) break;
    const bool heard = collect();
    if ((all_begun() || transfer.refused_) && transfer.outstanding_ == 0) break;
    const uint64_t now = clock_.now_ns();
    if (now >= transfer.deadline_ns_) {
      while (collect()) {
      }
      break;
    }
    if (now >= hopeless_ns()) {
      fail_with(kSilent);
    } else if (!heard) {
      wait(std::min(transfer.deadline_ns_, hopeless_ns()));
    }
  }
  post_touches();
  if (broken()) return why_broken_;
  if (transfer.refused_) return refused;
  const bool all = all_begun() && transfer.outstanding_ == 0 && !transfer.cut_off_;
  return all ? Status{} : late;
}

bool Staging::drive(uint64_t until_ns) {
  if (waiting_.load() > 0 || !try_turn()) return false;
  if (!broken()) {
    post_touches();
    if (!collect() && !broken()) {
      const uint64_t now = clock_.now_ns();
      if (now >= hopeless_ns()) {
        fail_with(kSilent);
      } else if (now < until_ns) {
        wait(std::min(until_ns, hopeless_ns()));
        collect();
        post_touches();
      }
    }
  }
  if (broken()) end();
  leave_turn();
  return true;
}

void Staging::touched(TouchBlocks::Block block) {
  if (broken()) return;
  const bool left = touches_.leave(block);
  if (!try_turn()) return;
  if (!broken()) {
    count_ended();  // which makes room
    const bool dropped = !left && !touches_.leave(block);
    const uint64_t now = clock_.now_ns();
    const uint64_t heard = std::max(touches_.oldest_ns(), heard_ns_);
    if (dropped && now > heard && now - heard >= reuse_ns_) fail_with(kSilent);
    post_touches();
    if (!broken()) count_ended();
  }
  let_go();
}

// Whether none is left.
bool Staging::post_touches() {
  if (broken()) return false;
  const Status status = touches_.post(*channel_, clock_.now_ns(), next_tag_);
  if (!status.ok()) fail_with(status);
  return !touches_.any_left();
}

// False: nothing has ended.
bool Staging::collect() {
  const bool heard = count_ended();
  return release_ended() || heard;
}

// Counts what has ended, once for each. False: nothing has.
bool Staging::count_ended() {
  std::array<Completion, kPollBatch> completions;
  const size_t count = channel_->poll(completions);
  watch(reuse_ns_ / kLooksPerReuse);
  if (count == 0) return false;
  heard_ns_ = polled_ns_;
  for (const Completion& completion : std::span(completions).first(count)) {
    account(completion);
  }
  return true;
}

// Gives the segments of late puts back whose writes have ended. It locks and frees: not for lanes.
bool Staging::release_ended() {
  const size_t released = std::erase_if(transfers_, [this](const auto& transfer) {
    if (!transfer->late_ || transfer->outstanding_ > 0) return false;
    ring_.release(transfer->segment_);
    transfer->ended_.store(true, std::memory_order_release);
    return true;
  });
  return released > 0;
}

void Staging::wait(uint64_t until_ns) {
  channel_->wait(until_ns);
  watch(kNever);
}

// Counts the time since the last look, of which at most so much was watched.
void Staging::watch(uint64_t most_ns) {
  const uint64_t now = clock_.now_ns();
  const uint64_t watched = std::min(now - polled_ns_, most_ns);
  polled_ns_ = now;
  for (const auto& transfer : transfers_) {
    if (transfer->late_) transfer->silent_ns_ += watched;
  }
}

void Staging::account(const Completion& completion) {
  const Status failed = {Code::kUnavailable, completion.vendor, "a write to the staging failed"};
  if (touches_.take_ended(completion.tag)) {
    if (completion.outcome != Outcome::kOk) fail_with(failed);
    return;
  }
  const auto found = std::ranges::find_if(transfers_, [&](const auto& transfer) {
    return completion.tag - transfer->first_tag_ < transfer->under_way_.size();
  });
  if (found == transfers_.end()) return;
  Transfer& transfer = **found;
  const size_t write = completion.tag - transfer.first_tag_;
  if (!transfer.under_way_[write]) return;
  transfer.under_way_[write] = false;
  --transfer.outstanding_;
  // The channel's writes end in order: what stands behind has come nearer.
  for (auto behind = found; behind != transfers_.end(); ++behind) (*behind)->silent_ns_ = 0;
  if (completion.outcome == Outcome::kOk) return;
  if (completion.outcome == Outcome::kRefused) {
    transfer.refused_ = true;  // this caller's own, and of no concern to others
  } else if (completion.outcome == Outcome::kAborted && polled_ns_ >= transfer.deadline_ns_) {
    transfer.cut_off_ = true;  // by a backend that ends what is late by itself
  } else {
    fail_with(failed);
  }
}

// When the channel will have been silent about late writes for `read_window`, if it is watched
// until then.
uint64_t Staging::hopeless_ns() const {
  uint64_t first = kNever;
  for (const auto& transfer : transfers_) {
    if (!transfer->late_) continue;
    first = std::min(first, polled_ns_ + reuse_ns_ - std::min(reuse_ns_, transfer->silent_ns_));
  }
  return first;
}

void Staging::fail_with(Status why) {
  if (broken()) return;
  why_broken_ = why;
  broken_.store(true, std::memory_order_release);
}

// May block, so a lane only says that the staging is broken. Nothing reads a source once the
// channel is gone.
void Staging::end() {
  channel_.reset();
  for (const auto& transfer : transfers_) {
    transfer->ended_.store(true, std::memory_order_release);
  }
  transfers_.clear();
}

}  // namespace farpage
