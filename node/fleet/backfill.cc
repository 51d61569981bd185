#include "node/fleet/backfill.h"

#include <algorithm>

#include "pagetable/guards.h"

namespace farpage {
namespace {

constexpr size_t kReadsAtOnce = 8;  // of one member; demand fetches go first
constexpr uint64_t kAskAgainNs = 10 * kMillisecond;
constexpr uint64_t kFirstPatienceNs = kMillisecond;  // with a member that still looks: doubles
constexpr uint64_t kMostPatienceNs = kSecond;
constexpr size_t kDropAtOnce = 4096;
constexpr size_t kTriesAgain = 3;  // of a page that was not whole, or of a repair

}  // namespace

Backfill::Backfill(Runtime& runtime, PageStore& store, const NodeEpoch& epoch, uint64_t bytes_per_s,
                   std::function<MemberLink*(NodeId)> peer, std::function<void()> told)
    : runtime_(runtime),
      store_(store),
      epoch_(epoch),
      bytes_per_s_(bytes_per_s),
      peer_(std::move(peer)),
      told_(std::move(told)),
      timer_(runtime, [this] { turn(); }) {}

void Backfill::begin_epoch(std::set<NodeId> others) {
  abort();
  whole_before_ = members_not_listed_.empty() && !has_given_up_ ? number_ : 0;
  number_ = epoch_.epoch().number;
  has_given_up_ = false;
  members_not_listed_ = std::move(others);
  timer_.arm_now();
}

void Backfill::fill_from(NodeId member, bool link_is_new) {
  for (const BackfillStreamPtr& pass : passes_) {
    if (pass->from == member && !pass->repairs) pass->over = true;
  }
  members_not_listed_.insert(member);
  begin({.from = member, .since = link_is_new ? 0 : whole_before_});
}

void Backfill::repair(std::span<const PageKey> keys) {
  std::unordered_map<NodeId, std::vector<PageKey>> by_member;
  for (const PageKey& key : keys) {
    const auto set = epoch_.replicas(key);
    for (size_t rank = 0; set && rank < set->size(); ++rank) {
      const NodeId node = epoch_.node_of((*set)[rank]);
      if (node != epoch_.self().node) by_member[node].push_back(key);
    }
  }
  for (auto& [member, wanted] : by_member) {
    begin({.from = member, .keys = std::move(wanted), .repairs = true});
  }
}

void Backfill::begin(BackfillStream pass) {
  pass.epoch = epoch_.tag();
  passes_.push_back(std::make_shared<BackfillStream>(std::move(pass)));
  timer_.arm_now();
}

void Backfill::abort() {
  for (const BackfillStreamPtr& pass : std::exchange(passes_, {})) {
    has_given_up_ |= !pass->over;
    pass->over = true;
  }
}

Backfill::Counts Backfill::counts() const {
  Counts counts = counts_;
  for (const BackfillStreamPtr& pass : passes_) {
    counts.left += pass->pages.size() + pass->reading + pass->failed.size();
    if (pass->tries > 0 && !pass->told_all) counts.left += pass->keys.size();
  }
  if (!all_told()) counts.left = std::max<uint64_t>(counts.left, 1);
  return counts;
}

// A node that is no member yet has everything before it.
bool Backfill::all_told() const {
  return members_not_listed_.empty() && epoch_.epoch().number != 0;
}

void Backfill::turn() {
  const uint64_t now = runtime_.clock().now_ns();
  for (const BackfillStreamPtr& pass : std::vector(passes_)) {
    if (!pass->over) turn(pass, now);
  }
  std::erase_if(passes_,
                [](const BackfillStreamPtr& pass) { return pass->over && pass->reading == 0; });
  // Drop recovered pages that no peer confirmed; every peer has now listed what it holds.
  if (store_.former() == 0 || !all_told()) return;
  store_.drop_former(kDropAtOnce);
  timer_.arm(now);
}

void Backfill::turn(const BackfillStreamPtr& pass, uint64_t now_ns) {
  MemberLink* peer = peer_(pass->from);
  if (peer == nullptr || (pass->repairs && !peer->reached())) {
    pass->over = true;
    has_given_up_ = true;
    return;
  }
  // A new link begins a new one, which takes the place of this.
  if (!peer->reached()) return timer_.arm(now_ns + kAskAgainNs);
  while (!pass->pages.empty() && pass->reading < kReadsAtOnce) {
    const HeldPage page = pass->pages.front();
    if (!lacks(page)) {
      pass->pages.pop_front();
      continue;
    }
    if (store_.adopt(page.key, page.version)) {
      pass->pages.pop_front();
      continue;
    }
    if (now_ns < next_read_ns_) return timer_.arm(next_read_ns_);
    const auto slot = store_.take();
    if (!slot) {
      const uint64_t next_ns = store_.next_slot_ns();
      pass->over = pass->repairs && next_ns == kNever;
      has_given_up_ |= pass->over;
      return timer_.arm(next_ns == kNever ? now_ns + kAskAgainNs : std::max(next_ns, now_ns + 1));
    }
    pass->pages.pop_front();
    next_read_ns_ = std::max(next_read_ns_, now_ns) + page.payload_bytes * kSecond / bytes_per_s_;
    read(pass, *peer, page, *slot);
  }
  if (!pass->pages.empty() || pass->reading > 0 || pass->asking) return;
  try_again(pass);
  if (pass->told_all) {
    pass->over = true;
    if (pass->keys.empty()) members_not_listed_.erase(pass->from);
  } else if (now_ns < pass->retry_ns) {
    timer_.arm(pass->retry_ns);
  } else {
    ask(pass, *peer);
  }
}

// Pages that were not read may lie elsewhere by now, except dead ones: no key finds those. A
// reply's pages are no more than a request's keys.
void Backfill::try_again(const BackfillStreamPtr& pass) {
  if (pass->failed.empty()) return;
  BackfillStream again = {.from = pass->from, .repairs = pass->repairs, .tries = pass->tries + 1};
  for (const HeldPage& page : std::exchange(pass->failed, {})) {
    if (page.dead) {
      again.pages.push_back(page);
    } else {
      again.keys.push_back(page.key);
    }
  }
  again.told_all = again.keys.empty();
  begin(std::move(again));
}

void Backfill::ask(const BackfillStreamPtr& pass, MemberLink& peer) {
  pass->asking = true;
  HoldingsRequest request;
  request.epoch = pass->epoch;
  request.keys = pass->keys;
  request.cursor = pass->cursor;
  request.since = pass->since;
  peer.call(std::move(request),
            [this, pass, alive = std::weak_ptr<bool>(alive_)](Result<Reply> reply) {
              if (!alive.expired()) answered(pass, std::move(reply));
            });
}

void Backfill::answered(const BackfillStreamPtr& pass, Result<Reply> reply) {
  pass->asking = false;
  if (pass->over) return;
  const uint64_t now = runtime_.clock().now_ns();
  timer_.arm(now);
  const auto* held = reply ? std::get_if<HoldingsReply>(&*reply) : nullptr;
  if (held == nullptr) {
    const auto* refusal = reply ? std::get_if<Refusal>(&*reply) : nullptr;
    if (refusal != nullptr && refusal->code == Code::kOtherEpoch) told_();
    if (refusal != nullptr && refusal->code == Code::kInvalid) pass->cursor = 0;
    pass->retry_ns = now + kAskAgainNs;
    return;
  }
  pass->pages.assign(held->pages.begin(), held->pages.end());
  if (held->looking) {
    pass->patience_ns = std::clamp(2 * pass->patience_ns, kFirstPatienceNs, kMostPatienceNs);
    pass->retry_ns = now + pass->patience_ns;
  }
  // 0, or a member that goes round in circles.
  pass->told_all = !held->looking && held->next <= pass->cursor;
  pass->cursor = held->next;
}

// Rule 11: what is not newer than what is held, or not above the floor, stays away.
bool Backfill::lacks(const HeldPage& page) const {
  if (!epoch_.can_be(page.version) || page.payload_bytes == 0 ||
      page.payload_bytes > store_.geometry().page_bytes || !epoch_.holds(page.key)) {
    return false;
  }
  const auto held = store_.find(page.key);
  if (held && page.version <= held->version && enforced(Guard::kNewerOnly)) return false;
  return page.version > store_.floor(page.key) || !enforced(Guard::kFloor);
}

void Backfill::read(const BackfillStreamPtr& pass, MemberLink& peer, const HeldPage& page,
                    uint32_t slot) {
  ++pass->reading;
  peer.reader().read(page, slot,
                     [this, pass, page, slot, alive = std::weak_ptr<bool>(alive_)](
                         Code code, const PageReader::Landed& landed) {
                       if (!alive.expired()) this->landed(pass, page, slot, code, landed);
                     });
}

// It counts only in the epoch in which it was asked for.
void Backfill::landed(const BackfillStreamPtr& pass, const HeldPage& page, uint32_t slot, Code code,
                      const PageReader::Landed& landed) {
  --pass->reading;
  const bool same_epoch = pass->epoch == epoch_.tag() || !enforced(Guard::kEpochInMessages);
  if (code == Code::kOk && same_epoch && lacks(page)) {
    if (store_.publish(slot, page.key, page.version, page.payload_bytes, landed.crc,
                       landed.name_space) != Code::kOk) {
      has_given_up_ = true;
    } else {
      ++counts_.pages;
      counts_.bytes += page.payload_bytes;
      counts_.repairs += pass->repairs ? 1 : 0;
    }
  } else {
    store_.release(slot);
    // A fill is not done before it has what lies there whole, and is only not reached.
    const bool not_reached = code == Code::kUnavailable || code == Code::kTimeout;
    const bool again = pass->tries < kTriesAgain || (not_reached && !pass->repairs);
    if (code != Code::kOk && again) pass->failed.push_back(page);
    has_given_up_ |= code != Code::kOk && !again;
  }
  // A member with a damaged page looks at it again, and fills itself.
  MemberLink* peer = peer_(pass->from);
  if (code == Code::kAborted && peer != nullptr) {
    peer->call(ReportRequest{{page.key}}, [](const Result<Reply>&) {});
  }
  timer_.arm_now();
}

}  // namespace farpage
