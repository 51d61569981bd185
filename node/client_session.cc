#include "node/client_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

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

Result<void> ClientSession::greet(uint64_t staging_bytes, HelloReply& reply) {
  if (greeted_) return fail(Code::kProtocol, "this client has said hello already");
  greeted_ = true;
  if (staging_bytes == 0) return {};
  auto passive = fabric_.offer_channel(ChannelPurpose::kStage);
  if (!passive) return tl::unexpected(passive.error());
  auto staging = passive->channel->allocate_writable(staging_bytes);
  if (!staging) return tl::unexpected(staging.error());
  auto exported = fabric_.export_region(*staging);
  if (!exported) return tl::unexpected(exported.error());
  staging_ = std::move(*staging);
  staging_channel_ = std::move(passive->channel);
  reply.staging = std::move(*exported);
  reply.staging_offer = std::move(passive->offer);
  return {};
}

Result<void> ClientSession::open_lane(const OpenLaneRequest& request, uint64_t max_lanes,
                                      const PageStore& store, OpenLaneReply& reply) {
  std::erase_if(lanes_, [&](const Lane& lane) { return lane.id == request.replaces; });
  if (lanes_.size() >= max_lanes) {
    return fail(
        Code::kExhausted,
        fmt::format("this client has {} lanes open, which is node.max_lanes", lanes_.size()));
  }
  auto read = fabric_.offer_channel(ChannelPurpose::kRead);
  if (!read) return tl::unexpected(read.error());
  auto touch = fabric_.offer_channel(ChannelPurpose::kStage);
  if (!touch) return tl::unexpected(touch.error());
  auto touches = touch->channel->allocate_writable(sizeof(TouchLog));
  if (!touches) return tl::unexpected(touches.error());

  const std::array<std::pair<const Region*, RegionExport*>, 3> exports = {{
      {&store.pool(), &reply.pool},
      {&store.index(), &reply.index},
      {&*touches, &reply.touches},
  }};
  for (const auto& [region, into] : exports) {
    auto exported = fabric_.export_region(*region);
    if (!exported) return tl::unexpected(exported.error());
    *into = std::move(*exported);
  }
  reply.lane = ++last_lane_;
  reply.read_offer = std::move(read->offer);
  reply.touch_offer = std::move(touch->offer);
  lanes_.push_back(
      {last_lane_, std::move(read->channel), std::move(*touches), std::move(touch->channel)});
  return {};
}

bool ClientSession::staged(uint32_t immediate) {
  if (staging_channel_ == nullptr) return false;
  std::array<Completion, 64> completions;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    const size_t count = staging_channel_->poll(completions);
    if (count == 0) break;
    for (size_t i = 0; i < count; ++i) {
      if (completions[i].kind == CompletionKind::kImmediate) {
        arrivals_.arrive(completions[i].immediate);
      }
    }
  }
  return arrivals_.arrived(immediate) > 0;
}

std::span<const std::byte> ClientSession::staged_payload(const CommitPage& page) const {
  if (page.staging_offset > staging_.bytes() ||
      page.payload_bytes > staging_.bytes() - page.staging_offset) {
    return {};
  }
  return {staging_.data() + page.staging_offset, page.payload_bytes};
}

void ClientSession::report(const VerdictCounts& verdicts) {
  for (const auto count : kVerdictCounts) {
    reported_.*count = std::max(reported_.*count, verdicts.*count);
  }
}

void ClientSession::collect_touches(PageStore& store) {
  for (Lane& lane : lanes_) {
    const auto& log = *reinterpret_cast<const TouchLog*>(lane.touches.data());
    const uint64_t written = load(log.written);
    // The client may write anything here: at most one ring is read, and every slot is checked.
    uint64_t at = written - std::min<uint64_t>(written - lane.touches_seen, kTouchRingSlots);
    for (; at != written; ++at) store.touch(load(log.slots[at % kTouchRingSlots]));
    lane.touches_seen = written;
  }
}

}  // namespace farpage
