#include "node/fleet/holdings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace farpage {
namespace {

// A quarter of the thread, and no wait of others that is longer.
constexpr uint64_t kWalkEveryNs = kMillisecond;
constexpr uint64_t kWalkNs = 250 * kMicrosecond;
constexpr uint64_t kSlotsOfAWalk = 4096;
constexpr uint64_t kSlotsALook = 64;
constexpr uint64_t kAnswerNs = 100 * kMicrosecond;
constexpr size_t kPagesALook = 32;

}  // namespace

Holdings::Holdings(Runtime& runtime, PageStore& store, const NodeEpoch& epoch,
                   ForeignPages& foreign)
    : runtime_(runtime), store_(store), epoch_(epoch), foreign_(foreign), timer_(runtime, [this] {
        turn();
      }) {}

// The walk begins at the first slot, as that of `foreign` does: what one has looked at, the other
// need not.
void Holdings::begin_epoch() {
  lists_.clear();
  lists_.resize(epoch_.epoch().members.size());
  walked_ = 0;
}

void Holdings::disconnected(ClientId session) {
  for (auto& list : lists_) {
    if (list != nullptr && list->session == session) list.reset();
  }
}

Reply Holdings::answer(ClientId session, NodeId asker, const HoldingsRequest& request) {
  const auto holder = epoch_.holder(asker);
  if (!holder) return HoldingsReply{};
  const Epoch& epoch = epoch_.epoch();
  const auto place = static_cast<size_t>(epoch.find(asker) - epoch.members.data());
  if (!request.keys.empty()) return of_keys(place, request.keys);
  std::unique_ptr<List>& list = lists_[place];
  const bool is_known = list != nullptr && list->session == session;
  const bool is_same = is_known && request.cursor == list->cursor && request.since == list->since;
  if (request.cursor == 0 && !is_same) {
    list = begin(session, asker, request.since);
    timer_.arm_now();
  } else if (!is_same) {
    if (!is_known || request.cursor != list->next) {
      return Refusal{Code::kInvalid,
                     fmt::format("this member did not give out the cursor {}: ask for its holdings "
                                 "from 0 on",
                                 request.cursor),
                     {}};
    }
    list->slots.erase(list->slots.begin(),
                      list->slots.begin() + static_cast<ptrdiff_t>(list->told));
    list->cursor = request.cursor;
  }
  return tell(*list, *holder);
}

HoldingsReply Holdings::of_keys(size_t asker, const std::vector<PageKey>& keys) const {
  HoldingsReply reply;
  for (const PageKey& key : keys) {
    const auto stored = store_.find(key);
    if (!stored) continue;
    const auto set = epoch_.replicas(key);
    if (!set->contains(asker) || !epoch_.is_holder(*set)) continue;
    reply.pages.push_back({key, stored->version, stored->slot, stored->payload_bytes, false});
  }
  return reply;
}

std::unique_ptr<Holdings::List> Holdings::begin(ClientId session, NodeId asker,
                                                uint64_t since) const {
  auto list = std::make_unique<List>();
  list->session = session;
  list->since = since;
  if (since != 0 && since == epoch_.number_before()) list->before = epoch_.holder_before(asker);
  list->whole_at = walked_ + store_.slots().size();
  return list;
}

// What lies in a slot may have gone since it was listed, and another page come: it is told as it
// lies there now.
HoldingsReply Holdings::tell(List& list, const Placement::Holder& asker) const {
  HoldingsReply reply;
  const auto add = [&](uint32_t slot, const PageHeader& page, bool dead) {
    if (header_crc(page) != page.header_crc || !epoch_.holds(asker, page.key)) return true;
    reply.pages.push_back({page.key, page.version, slot, page.payload_bytes, dead});
    return true;
  };
  const uint64_t until_ns = runtime_.clock().now_ns() + kAnswerNs;
  const size_t most = std::min<size_t>(list.slots.size(), kMaxReplicaPages);
  list.told = 0;
  while (list.told < most) {
    store_.walk(list.slots[list.told++], 1, add);
    if (list.told % kPagesALook == 0 && runtime_.clock().now_ns() >= until_ns) break;
  }
  list.next = list.cursor + std::max<uint64_t>(list.told, 1);
  reply.looking = list.told == list.slots.size() && walked_ < list.whole_at;
  reply.next = list.told == list.slots.size() && !reply.looking ? 0 : list.next;
  return reply;
}

uint64_t Holdings::last_end() const {
  uint64_t end = walked_;
  for (const auto& list : lists_) {
    if (list != nullptr) end = std::max(end, list->whole_at);
  }
  return end;
}

void Holdings::turn() {
  const uint64_t now = runtime_.clock().now_ns();
  const uint64_t slots = store_.slots().size();
  const uint64_t end = last_end();
  if (store_.slots().live_count() == 0 && store_.slots().dead_count() == 0) walked_ = end;
  for (uint64_t left = kSlotsOfAWalk; left > 0 && walked_ < end;) {
    const auto first = static_cast<uint32_t>(walked_ % slots);
    const auto count =
        static_cast<uint32_t>(std::min({kSlotsALook, left, slots - first, end - walked_}));
    // A member is told only of what stays as it is in this epoch.
    foreign_.kill(first, first + count);
    store_.walk(first, count, [&](uint32_t slot, const PageHeader& page, bool) {
      collect(walked_ + (slot - first), slot, page);
      return true;
    });
    walked_ += count;
    left -= count;
    if (runtime_.clock().now_ns() >= now + kWalkNs) break;
  }
  if (walked_ < end) timer_.arm(now + kWalkEveryNs);
}

void Holdings::collect(uint64_t at, uint32_t slot, const PageHeader& page) {
  if (header_crc(page) != page.header_crc) return;
  const auto set = epoch_.replicas(page.key);
  for (size_t rank = 0; set && rank < set->size(); ++rank) {
    List* list = lists_[(*set)[rank]].get();
    if (list == nullptr || at >= list->whole_at) continue;
    if (list->before && epoch_.held_before(*list->before, page.key)) continue;
    list->slots.push_back(slot);
  }
}

}  // namespace farpage
