#include "node/fleet/replica_receiver.h"

#include <algorithm>

#include "pagetable/guards.h"

namespace farpage {
namespace {

constexpr size_t kMostWaiting = 65'536;  // pages of one session
constexpr size_t kReadAhead = 32;  // pages of one session whose slots are held before their turn

}  // namespace

ReplicaReceiver::ReplicaReceiver(Runtime& runtime, PageStore& store, const NodeEpoch& epoch,
                                 uint64_t opens_ns, std::function<PageReader*(NodeId)> reader,
                                 std::function<bool(NodeId)> reached)
    : runtime_(runtime),
      store_(store),
      epoch_(epoch),
      opens_ns_(opens_ns),
      reader_(std::move(reader)),
      reached_(std::move(reached)),
      timer_(runtime, [this] { turn(); }) {}

void ReplicaReceiver::begin(ClientId session, NodeId from) {
  for (auto& [id, stream] : streams_) {
    if (stream.from != from) continue;
    end(id);
    break;
  }
  streams_[session].from = from;
}

void ReplicaReceiver::end(ClientId session) {
  const auto found = streams_.find(session);
  if (found == streams_.end()) return;
  for (const auto& item : found->second.items) drop(*item);
  streams_.erase(found);
}

// A slot that is being read into is given back when that has ended.
void ReplicaReceiver::drop(Item& item) {
  item.answer.reset();
  if (item.has_slot && item.state != State::kReading) store_.release(item.slot);
  item.has_slot = item.has_slot && item.state == State::kReading;
}

void ReplicaReceiver::abort(Code code) {
  std::vector<std::function<void()>> answers;
  for (auto& [session, stream] : streams_) {
    for (const auto& item : std::exchange(stream.items, {})) {
      const std::shared_ptr<Answer> answer = item->answer;
      drop(*item);
      answer->codes[item->index] = code;
      if (--answer->left > 0) continue;
      answers.emplace_back([answer] { answer->done(ReplicateReply{answer->codes}); });
    }
  }
  // Last, because an answer that cannot be sent ends its session.
  for (const auto& answer : answers) answer();
}

void ReplicaReceiver::replicate(ClientId session, ReplicateRequest request,
                                std::function<void(Reply)> done) {
  if (request.epoch != epoch_.tag() && enforced(Guard::kEpochInMessages)) {
    return done(Refusal{Code::kOtherEpoch, "this member is in another epoch", epoch_.tag()});
  }
  const auto found = streams_.find(session);
  if (found == streams_.end()) {
    return done(Refusal{Code::kDenied, "only a member sends replicas, on its newest connection"});
  }
  if (request.pages.empty()) return done(ReplicateReply{});
  if (found->second.items.size() + request.pages.size() > kMostWaiting) {
    return done(Refusal{Code::kExhausted, "too many pages of this member wait for their turn", {}});
  }
  auto answer = std::make_shared<Answer>();
  answer->codes.resize(request.pages.size(), Code::kOk);
  answer->left = request.pages.size();
  answer->deadline_ns = runtime_.clock().now_ns() + std::min(request.patience_ns, kMaxPatienceNs);
  answer->done = std::move(done);
  for (size_t i = 0; i < request.pages.size(); ++i) {
    auto item = std::make_shared<Item>();
    item->page = request.pages[i];
    item->answer = answer;
    item->index = i;
    found->second.items.push_back(std::move(item));
  }
  turn(session);
}

// kOk: it is to be applied.
Code ReplicaReceiver::judge(NodeId from, const ReplicaPage& page) const {
  const auto set = epoch_.replicas(page.page.key);
  if (!set || epoch_.node_of(set->primary()) != from || !epoch_.is_holder(*set)) {
    return Code::kInvalid;
  }
  const bool fits = page.removed || (page.page.payload_bytes > 0 &&
                                     page.page.payload_bytes <= store_.geometry().page_bytes);
  return fits && epoch_.can_be(page.page.version) ? Code::kOk : Code::kInvalid;
}

void ReplicaReceiver::turn() {
  std::vector<ClientId> sessions;
  for (const auto& [session, stream] : streams_) sessions.push_back(session);
  std::ranges::sort(sessions);
  for (const ClientId session : sessions) turn(session);
}

// Reads what may be read, and applies what has been, from the first on.
void ReplicaReceiver::turn(ClientId session) {
  const auto found = streams_.find(session);
  if (found == streams_.end() || found->second.items.empty()) return;
  if (runtime_.clock().now_ns() < opens_ns_) return timer_.arm(opens_ns_);
  Stream& stream = found->second;
  for (size_t i = 0; i < stream.items.size() && i < kReadAhead; ++i) {
    const auto& item = stream.items[i];
    if (item->state != State::kWaiting) continue;
    if (!begin_read(session, stream, item)) break;
  }
  std::vector<std::shared_ptr<Item>> applied;
  if (enforced(Guard::kFifoReplication)) {
    for (; !stream.items.empty() && stream.items.front()->state == State::kRead;
         stream.items.pop_front()) {
      applied.push_back(stream.items.front());
    }
  } else {
    std::erase_if(stream.items, [&](const std::shared_ptr<Item>& item) {
      if (item->state == State::kRead) applied.push_back(item);
      return item->state == State::kRead;
    });
  }
  for (const auto& item : applied) apply(*item);
  if (!applied.empty() && !stream.items.empty()) timer_.arm_now();
  // Last, because an answer that cannot be sent ends the session.
  for (const auto& item : applied) settle(*item, item->code);
}

// False: there is no slot for it now.
bool ReplicaReceiver::begin_read(ClientId session, Stream& stream,
                                 const std::shared_ptr<Item>& item) {
  const HeldPage& page = item->page.page;
  item->code = judge(stream.from, item->page);
  const auto held = store_.find(page.key);
  const bool is_held = held && page.version <= held->version;
  PageReader* reader = reader_(stream.from);
  // One that this node does not reach, or refuses, is not believed that what is held is newer.
  if (reader == nullptr || (is_held && !reached_(stream.from))) item->code = Code::kUnavailable;
  // Its primary no longer waits for it, and may have given its slot away.
  if (runtime_.clock().now_ns() >= item->answer->deadline_ns) item->code = Code::kTimeout;
  if (item->code != Code::kOk || item->page.removed || (is_held && enforced(Guard::kNewerOnly))) {
    item->state = State::kRead;
    return true;
  }
  store_.want(page.key);
  const auto slot = store_.take();
  if (!slot) {
    if (store_.next_slot_ns() == kNever) {
      item->code = Code::kExhausted;
      item->state = State::kRead;
      return true;
    }
    timer_.arm(std::max(store_.next_slot_ns(), runtime_.clock().now_ns() + 1));
    return false;
  }
  item->has_slot = true;
  item->slot = *slot;
  item->state = State::kReading;
  reader->read(page, *slot,
               [this, session, item, alive = std::weak_ptr<bool>(alive_)](
                   Code code, const PageReader::Landed& landed) {
                 if (alive.expired()) return;
                 item->state = State::kRead;
                 item->code = code;
                 item->landed = landed;
                 if (item->answer == nullptr) return drop(*item);
                 turn(session);
               });
  return true;
}

// Rule 10 and REPLICA: what is not newer than what is held changes nothing, and is answered all
// the same.
void ReplicaReceiver::apply(Item& item) {
  const HeldPage& page = item.page.page;
  const auto held = store_.find(page.key);
  const bool newer = !held || page.version > held->version || !enforced(Guard::kNewerOnly);
  if (item.code == Code::kOk && item.page.removed && newer) {
    store_.remove(page.key, page.version);
    ++applied_;
  } else if (item.code == Code::kOk && item.has_slot && newer) {
    item.code = store_.publish(item.slot, page.key, page.version, page.payload_bytes,
                               item.landed.crc, item.landed.name_space);
    item.has_slot = false;
    ++applied_;
  }
  if (item.has_slot) store_.release(item.slot);
  item.has_slot = false;
}

void ReplicaReceiver::settle(Item& item, Code code) {
  const std::shared_ptr<Answer> answer = std::move(item.answer);
  answer->codes[item.index] = code;
  if (--answer->left == 0) answer->done(ReplicateReply{answer->codes});
}

}  // namespace farpage
