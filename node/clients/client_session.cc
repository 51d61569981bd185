#include "node/clients/client_session.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "control/status/status_table.h"
#include "pagetable/touch_log.h"

namespace farpage {
namespace {

// A client that sends immediates without end does not keep the node from its other clients.
constexpr int kMostTurns = 16;

uint64_t load(const uint64_t& word) {
  return std::atomic_ref<const uint64_t>(word).load(std::memory_order_acquire);
}

uint32_t load(const uint32_t& word) {
  return std::atomic_ref<const uint32_t>(word).load(std::memory_order_relaxed);
}

}  // namespace

std::weak_ptr<ClientSession::Answer> ClientSession::begin_making(Answer answer) {
  return making_.emplace_back(std::make_shared<Answer>(std::move(answer)));
}

void ClientSession::end_making(const std::shared_ptr<Answer>& answer) {
  std::erase(making_, answer);
}

std::vector<std::shared_ptr<ClientSession::Answer>> ClientSession::end_all_making() {
  return std::exchange(making_, {});
}

void ClientSession::greet(std::optional<ClientStaging> staging) {
  greeted_ = true;
  ++totals_->greeted;
  if (staging) staging_ = std::move(*staging);
}

void ClientSession::leave() {
  totals_->greeted -= greeted_ ? 1 : 0;
  totals_->sources -= sources_.size();
}

uint64_t ClientSession::add_lane(ClientLane lane) {
  lanes_.push_back({++last_lane_, std::move(lane)});
  return last_lane_;
}

std::optional<ClientLane> ClientSession::take_lane(uint64_t number) {
  const auto found = std::ranges::find(lanes_, number, &Lane::number);
  if (found == lanes_.end()) return std::nullopt;
  std::optional<ClientLane> taken(std::move(found->lane));
  lanes_.erase(found);
  return taken;
}

void ClientSession::add_source(uint32_t number, ClientSource source) {
  if (sources_.try_emplace(number, std::move(source)).second) ++totals_->sources;
}

std::optional<ClientSource> ClientSession::take_source(uint32_t number) {
  auto found = sources_.extract(number);
  if (found.empty()) return std::nullopt;
  --totals_->sources;
  return std::move(found.mapped());
}

const PeerSource* ClientSession::source(uint32_t number) const {
  const auto found = sources_.find(number);
  return found == sources_.end() ? nullptr : found->second.memory.get();
}

bool ClientSession::staged(uint32_t immediate) {
  if (staging_.target == nullptr) return false;
  std::array<uint32_t, 64> immediates;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    const size_t count = staging_.target->poll(immediates);
    if (count == 0) break;
    for (size_t i = 0; i < count; ++i) arrivals_.arrive(immediates[i]);
  }
  return arrivals_.arrived(immediate) > 0;
}

std::span<const std::byte> ClientSession::staged_payload(const CommitPage& page) const {
  if (page.staging_offset > staging_.put_bytes ||
      page.payload_bytes > staging_.put_bytes - page.staging_offset) {
    return {};
  }
  return {staging_.memory.data() + page.staging_offset, page.payload_bytes};
}

void ClientSession::report(const VerdictCounts& verdicts) {
  for (const auto& count : figures(verdicts)) {
    uint64_t& before = reported_.*count.member;
    const uint64_t now = std::max(before, verdicts.*count.member);
    uint64_t& total = totals_->verdicts.*count.member;
    total = add_up(count.sum, total, now - before);
    before = now;
  }
}

uint64_t ClientSession::collect_touches(PageStore& store, uint64_t most) {
  const uint64_t log_at = staging_.put_bytes;
  if (staging_.memory.bytes() - log_at < sizeof(TouchLog)) return 0;
  const auto& log = *reinterpret_cast<const TouchLog*>(staging_.memory.data() + log_at);
  const uint64_t written = load(log.written);
  // The client may write anything here: at most one ring is read, and every slot is checked.
  uint64_t at = written - std::min<uint64_t>(written - touches_seen_, kTouchRingSlots);
  const uint64_t count = std::min(written - at, most);
  const uint64_t end = at + count;
  for (; at != end; ++at) store.touch(load(log.slots[at % kTouchRingSlots]));
  touches_seen_ = end;
  return count;
}

}  // namespace farpage
