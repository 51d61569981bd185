#include "node/fleet/replica_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "pagetable/guards.h"

namespace farpage {
namespace {

// So many pages may fail between two looks at others' messages: each may end a put, which the node
// then answers.
constexpr size_t kTurnPages = 256;

}  // namespace

ReplicaSender::ReplicaSender(Runtime& runtime, PageStore& store, const NodeEpoch& epoch,
                             std::function<MemberLink*(NodeId)> peer, std::function<void()> told)
    : runtime_(runtime),
      store_(store),
      epoch_(epoch),
      peer_(std::move(peer)),
      told_(std::move(told)),
      overdue_(runtime, [this] { end_overdue(); }),
      turn_pages_(kTurnPages),
      next_turn_(runtime, [this] { begin_turn(); }) {}

Admission ReplicaSender::admits(const PageKey& key) const {
  const auto set = epoch_.replicas(key);
  if (!set || !epoch_.is_primary(*set)) return Admission::kElsewhere;
  if (under_way_.contains(key)) return Admission::kAfterAnother;
  Admission admission = Admission::kBegins;
  if (!enforced(Guard::kAllOfEpoch)) return admission;
  for (size_t rank = 1; rank < set->size(); ++rank) {
    const MemberLink* peer = peer_(epoch_.node_of((*set)[rank]));
    if (peer == nullptr || peer->away()) return Admission::kNoReplica;
    if (!peer->reached()) admission = Admission::kReachesOut;
  }
  return admission;
}

std::string ReplicaSender::missing(const PageKey& key) const {
  const auto set = epoch_.replicas(key);
  if (!set || !epoch_.is_primary(*set)) return "";
  for (size_t rank = 1; rank < set->size(); ++rank) {
    const NodeId node = epoch_.node_of((*set)[rank]);
    const MemberLink* peer = peer_(node);
    if (peer != nullptr && peer->reached()) continue;
    return fmt::format(
        "node {:016x} does not reach member {:016x}, which has to have the page too: {}",
        epoch_.self().node, node, peer == nullptr ? "it has just joined" : peer->why_away());
  }
  return "";
}

std::string ReplicaSender::unanswered(const PageKey& key) const {
  const auto set = epoch_.replicas(key);
  if (!set || !epoch_.is_primary(*set)) return "";
  std::string members;
  for (size_t rank = 1; rank < set->size(); ++rank) {
    members += fmt::format("{}{:016x}", rank > 1 ? " and " : "", epoch_.node_of((*set)[rank]));
  }
  return fmt::format(
      "node {:016x} has had no answer in time from member {}, which has to have the "
      "page too",
      epoch_.self().node, members);
}

void ReplicaSender::hold(const ReplicaPage& page) {
  under_way_.insert(page.page.key);
  if (!page.removed) store_.pin(static_cast<uint32_t>(page.page.slot), page.page.version);
}

void ReplicaSender::replicate(std::vector<ReplicaPage> pages, uint64_t deadline_ns, Ended ended) {
  auto batch = std::make_shared<Batch>();
  batch->pages = std::move(pages);
  batch->waiting.resize(batch->pages.size());
  batch->codes.resize(batch->pages.size(), Code::kOk);
  batch->has_ended.resize(batch->pages.size(), false);
  batch->left = batch->pages.size();
  batch->deadline_ns = deadline_ns;
  batch->ended = std::move(ended);
  batch->place = batches_.insert(batches_.end(), batch);
  std::map<NodeId, std::vector<size_t>> by_replica;
  for (size_t i = 0; i < batch->pages.size(); ++i) {
    const ReplicaPage& page = batch->pages[i];
    const auto set = epoch_.replicas(page.page.key);
    for (size_t rank = 1; rank < set->size(); ++rank) {
      by_replica[epoch_.node_of((*set)[rank])].push_back(i);
    }
    batch->waiting[i] = set->size() - 1;
  }
  for (auto& [node, indices] : by_replica) send(batch, node, std::move(indices));
  const std::weak_ptr<Batch> weak = batch;
  const std::weak_ptr<bool> alive = alive_;
  runtime_.after(0, [this, weak, alive] {
    const auto found = weak.lock();
    if (alive.expired() || found == nullptr) return;
    for (size_t i = 0; i < found->pages.size(); ++i) {
      if (found->waiting[i] == 0 || !enforced(Guard::kAllOfEpoch)) end(*found, i, found->codes[i]);
    }
  });
  overdue_.arm(deadline_ns);
}

void ReplicaSender::end_overdue() {
  const uint64_t now = runtime_.clock().now_ns();
  uint64_t next = kNever;
  for (const auto& batch : batches_) {
    if (batch->deadline_ns <= now) {
      end_later(batch, Code::kTimeout);
    } else {
      next = std::min(next, batch->deadline_ns);
    }
  }
  overdue_.arm(next);
  fail_some();
}

void ReplicaSender::send(const std::shared_ptr<Batch>& batch, NodeId to,
                         std::vector<size_t> pages) {
  MemberLink* peer = peer_(to);
  const uint64_t now = runtime_.clock().now_ns();
  const uint64_t patience = batch->deadline_ns > now ? batch->deadline_ns - now : 0;
  for (size_t first = 0; first < pages.size(); first += kMaxReplicaPages) {
    const size_t count = std::min<size_t>(kMaxReplicaPages, pages.size() - first);
    const auto begin = pages.begin() + static_cast<ptrdiff_t>(first);
    std::vector<size_t> part(begin, begin + static_cast<ptrdiff_t>(count));
    ReplicateRequest request = {epoch_.tag(), {}, patience};
    for (const size_t page : part) request.pages.push_back(batch->pages[page]);
    if (peer == nullptr) {
      for (const size_t page : part) take(*batch, page, Code::kUnavailable);
      continue;
    }
    peer->call(std::move(request),
               [this, batch, part = std::move(part), to, link_number = peer->link_number(),
                alive = std::weak_ptr<bool>(alive_)](Result<Reply> reply) {
                 if (alive.expired()) return;
                 answered(batch, part, reply);
                 const auto* refusal = reply ? std::get_if<Refusal>(&*reply) : nullptr;
                 if (refusal != nullptr) refused(to, link_number, refusal->code);
               });
  }
}

void ReplicaSender::answered(const std::shared_ptr<Batch>& batch, std::span<const size_t> pages,
                             const Result<Reply>& reply) {
  const auto* codes = reply ? std::get_if<ReplicateReply>(&*reply) : nullptr;
  const bool is_for_all = codes != nullptr && codes->codes.size() == pages.size();
  const auto* refusal = reply ? std::get_if<Refusal>(&*reply) : nullptr;
  // The replica denies this member, not the client that put the page.
  const bool told = refusal != nullptr && refusal->code != Code::kDenied;
  const Code why = told ? refusal->code : Code::kUnavailable;
  std::vector<FailedPage> failed;
  for (size_t i = 0; i < pages.size(); ++i) {
    const Code code = is_for_all ? codes->codes[i] : why;
    if (code == Code::kOk) {
      take(*batch, pages[i], code);
    } else if (!batch->has_ended[pages[i]]) {
      failed.push_back({pages[i], code});
    }
  }
  fail(batch, std::move(failed));
  fail_some();
}

// kDenied: the greeting of an older connection came after this one's, and the replica takes that
// one for the newest.
void ReplicaSender::refused(NodeId by, uint64_t link_number, Code why) {
  if (why == Code::kOtherEpoch) return told_();
  MemberLink* peer = peer_(by);
  if (why == Code::kDenied && peer != nullptr && peer->link_number() == link_number) {
    peer->greet_again();
  }
}

// One replica's answer for one page.
void ReplicaSender::take(Batch& batch, size_t page, Code code) {
  if (batch.codes[page] == Code::kOk) batch.codes[page] = code;
  --batch.waiting[page];
  if (batch.waiting[page] == 0) end(batch, page, batch.codes[page]);
}

void ReplicaSender::end(Batch& batch, size_t page, Code code) {
  if (batch.has_ended[page]) return;
  batch.has_ended[page] = true;
  if (batch.ends_with != Code::kOk) code = batch.ends_with;
  const ReplicaPage& ended = batch.pages[page];
  under_way_.erase(ended.page.key);
  if (!ended.removed) {
    store_.unpin(static_cast<uint32_t>(ended.page.slot), ended.page.version);
  }
  replicated_ += code == Code::kOk ? 1 : 0;
  if (--batch.left == 0) batches_.erase(batch.place);
  batch.ended(page, code);
}

// From here on no replica's answer is good enough.
void ReplicaSender::end_later(const std::shared_ptr<Batch>& batch, Code code) {
  if (batch->ends_with != Code::kOk) return;
  batch->ends_with = code;
  std::vector<FailedPage> pages;
  for (size_t page = 0; page < batch->pages.size(); ++page) {
    if (!batch->has_ended[page]) pages.push_back({page, code});
  }
  fail(batch, std::move(pages));
}

void ReplicaSender::fail(const std::shared_ptr<Batch>& batch, std::vector<FailedPage> pages) {
  if (!pages.empty()) failures_.push_back({batch, std::move(pages)});
}

void ReplicaSender::begin_turn() {
  turn_pages_ = kTurnPages;
  if (!failures_.empty()) fail_some();
}

void ReplicaSender::fail_some() {
  while (turn_pages_ > 0 && !failures_.empty()) {
    --turn_pages_;
    fail_next();
  }
  if (turn_pages_ < kTurnPages) next_turn_.arm_now();
}

// What a page's end calls may come back here.
void ReplicaSender::fail_next() {
  Failure& failure = failures_.front();
  const std::shared_ptr<Batch> batch = failure.batch;
  const FailedPage failed = failure.pages[failure.next++];
  if (failure.next == failure.pages.size()) failures_.pop_front();
  if (batch->ends_with != Code::kOk) {
    end(*batch, failed.page, batch->ends_with);
  } else {
    take(*batch, failed.page, failed.code);
  }
}

void ReplicaSender::abort(Code code) {
  for (const auto& batch : batches_) end_later(batch, code);
  fail_some();
}

void ReplicaSender::abort_at_once(Code code) {
  for (const auto& batch : batches_) end_later(batch, code);
  while (!failures_.empty()) fail_next();
}

}  // namespace farpage
