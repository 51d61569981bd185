#include "node/clients/write_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "pagetable/guards.h"
#include "pagetable/touch_log.h"

namespace farpage {
namespace {

// Between two looks at other clients' messages.
constexpr uint64_t kPumpBytes = 4 * kMiB;
constexpr uint64_t kPageBytes = 8 * kKiB;  // in the time of which a page of no bytes is written
constexpr size_t kPumpWrites = 256;
// Likewise, of all clients together. A policy takes longer for a touch than CLOCK, which sets a
// bit.
constexpr uint64_t kTouches = 16 * kTouchRingSlots;
constexpr uint64_t kRankedTouches = kTouchRingSlots;
constexpr size_t kClientsWithTouches = 64;
constexpr size_t kLogLooks = 1'024;
constexpr uint64_t kImmediateRetryNs = 200 * kMicrosecond;
constexpr uint64_t kReplicaRetryNs = kMillisecond;

bool is_staged(const CommitPage& page) {
  return page.source == 0;
}

const Refusal kTooManyWait = {Code::kExhausted,
                              "too many requests of this client wait for their answer"};

}  // namespace

size_t WriteQueue::Write::pages() const {
  const auto* commit = std::get_if<CommitRequest>(&request);
  return commit != nullptr ? commit->pages.size() : std::get<RemoveRequest>(request).keys.size();
}

uint64_t WriteQueue::Write::bytes() const {
  const bool is_commit = std::holds_alternative<CommitRequest>(request);
  const uint64_t each = (is_commit ? sizeof(CommitPage) : sizeof(PageKey)) + sizeof(CommitResult);
  return sizeof(Write) + pages() * each;
}

const PageKey& WriteQueue::Write::key(size_t page) const {
  const auto* commit = std::get_if<CommitRequest>(&request);
  return commit != nullptr ? commit->pages[page].key : std::get<RemoveRequest>(request).keys[page];
}

EpochTag WriteQueue::Write::epoch() const {
  return std::visit([](const auto& asked) { return asked.epoch; }, request);
}

WriteQueue::WriteQueue(Runtime& runtime, Clients& clients, PageStore& store, Versions& versions,
                       const NodeEpoch* epoch, ReplicaSender* replica_sender)
    : runtime_(runtime),
      clients_(clients),
      store_(store),
      versions_(versions),
      epoch_(epoch),
      replica_sender_(replica_sender),
      timer_(runtime, [this] { pump(); }) {}

void WriteQueue::commit(ClientId client, CommitRequest request, std::function<void(Reply)> done) {
  const uint64_t deadline = deadline_of(request.patience_ns);
  enqueue(std::make_shared<Write>(
      Write{client, std::move(request), deadline, std::move(done), epochs_, 0, 0, {}, 0, {}}));
}

void WriteQueue::remove(ClientId client, RemoveRequest request, std::function<void(Reply)> done) {
  const uint64_t deadline = deadline_of(request.patience_ns);
  enqueue(std::make_shared<Write>(
      Write{client, std::move(request), deadline, std::move(done), epochs_, 0, 0, {}, 0, {}}));
}

uint64_t WriteQueue::deadline_of(uint64_t patience_ns) const {
  return runtime_.clock().now_ns() + std::min(patience_ns, kMaxPatienceNs);
}

void WriteQueue::enqueue(WritePtr write) {
  if (epoch_ != nullptr && write->epoch() != epoch_->tag() && enforced(Guard::kEpochInMessages)) {
    return write->done(Refusal{Code::kOtherEpoch, "this node is in another epoch", epoch_->tag()});
  }
  ClientSession& client = clients_.at(write->client);
  auto grant = client.budget().take(write->bytes(), "a request that waits");
  if (!grant) return write->done(Refusal{grant.error().code, grant.error().message});
  write->grant = std::move(*grant);
  if (!client.add_waiting()) return write->done(kTooManyWait);
  write->results.resize(write->pages());
  const bool is_remove = std::holds_alternative<RemoveRequest>(write->request);
  const bool is_first = is_remove ? !of_client_.contains(write->client) : waiting_.empty();
  if (!is_first) {
    wait_in_line(std::move(write));
    return look_again();
  }
  touches_collected_ = false;
  Turn turn = {runtime_.clock().now_ns(), kPumpBytes};
  if (advance(write, turn)) {
    if (write->open == 0) finish(*write);
    return;
  }
  wait_in_line(std::move(write));
  if (turn.budget_bytes == 0) return look_again();
  pass_wake_ns_ = std::min(pass_wake_ns_, turn.wake_ns);
  timer_.arm(turn.wake_ns);
}

void WriteQueue::wait_in_line(WritePtr write) {
  const auto [known, is_new] = of_client_.try_emplace(write->client);
  if (is_new) known->second = waiting_.insert(waiting_.end(), {write->client, pass_, {}});
  known->second->writes.push_back(std::move(write));
}

void WriteQueue::disconnected(ClientId client) {
  const auto known = of_client_.find(client);
  if (known == of_client_.end()) return;
  if (next_ == known->second) ++next_;
  waiting_.erase(known->second);
  of_client_.erase(known);
}

void WriteQueue::epoch_changed() {
  ++epochs_;
  look_again();
}

void WriteQueue::look_again() {
  again_ = true;
  if (!waiting_.empty()) timer_.arm_now();
}

void WriteQueue::refuse_waiting() {
  const std::list<Waiting> refused = std::exchange(waiting_, {});
  next_ = waiting_.end();
  of_client_.clear();
  for (const Waiting& waiting : refused) {
    for (const WritePtr& write : waiting.writes) {
      if (clients_.contains(write->client)) refuse(*write);
    }
  }
}

// A refused client sends all of it again, and pages that have begun may have been read already: the
// node answers for those page by page.
void WriteQueue::refuse(Write& write) {
  if (write.begun > 0) {
    give_up_rest(write, Code::kOtherEpoch);
    if (write.open == 0) finish(write);
    return;
  }
  clients_.at(write.client).remove_waiting();
  std::exchange(write.done, nullptr)(
      Refusal{Code::kOtherEpoch, "this node is in another epoch", epoch_->tag()});
}

void WriteQueue::pump() {
  touches_collected_ = false;
  if (pass_is_over()) {
    ++pass_;
    next_ = waiting_.begin();
    pass_wake_ns_ = kNever;
    again_ = false;
  }
  Turn turn = {runtime_.clock().now_ns(), kPumpBytes};
  std::vector<WritePtr> begun;
  for (size_t seen = 0; !pass_is_over() && seen < kPumpWrites && turn.budget_bytes > 0;) {
    const Place place = next_++;
    seen += place->writes.size();
    advance_all(*place, turn, begun);
    if (!place->writes.empty()) continue;
    of_client_.erase(place->client);
    waiting_.erase(place);
  }
  if (turn.budget_bytes == 0) again_ = true;  // for the last client's others
  pass_wake_ns_ = std::min(pass_wake_ns_, turn.wake_ns);
  if (!waiting_.empty()) {
    timer_.arm(pass_is_over() && !again_ ? pass_wake_ns_ : turn.now_ns);
  }
  // Last, because an answer that cannot be sent ends its client, and with it that client's commits.
  for (const WritePtr& write : begun) {
    if (write->epochs != epochs_) {
      if (clients_.contains(write->client)) refuse(*write);
    } else if (write->open == 0) {
      finish(*write);
    }
  }
}

// The client's commits do not overtake one another.
void WriteQueue::advance_all(Waiting& waiting, Turn& turn, std::vector<WritePtr>& begun) {
  bool is_blocked = false;
  std::erase_if(waiting.writes, [&](const WritePtr& write) {
    const bool is_commit = std::holds_alternative<CommitRequest>(write->request);
    if (turn.budget_bytes == 0 || (is_commit && is_blocked)) return false;
    const bool all = write->epochs != epochs_ || advance(write, turn);
    is_blocked |= is_commit && !all;
    if (all) begun.push_back(write);
    return all;
  });
}

// True: every page has been begun, or refused.
bool WriteQueue::advance(const WritePtr& write, Turn& turn) {
  Batch batch;
  const bool all = begin_pages(*write, turn, batch);
  if (batch.pages.empty()) return all;
  write->open += batch.pages.size();
  replica_sender_->replicate(std::move(batch.replicas), write->deadline_ns,
                             [this, write, pages = std::move(batch.pages),
                              alive = std::weak_ptr<bool>(alive_)](size_t page, Code code) {
                               if (!alive.expired()) replicated(write, pages[page], code);
                             });
  return all;
}

void WriteQueue::give_up_rest(Write& write, Code code) {
  while (write.begun < write.pages()) write.results[write.begun++] = {code, 0};
}

bool WriteQueue::wait(Write& write, Turn& turn, uint64_t until_ns, Code code) {
  if (turn.now_ns >= write.deadline_ns) {
    give_up_rest(write, code);
    return true;
  }
  turn.wake_ns = std::min({turn.wake_ns, std::max(until_ns, turn.now_ns + 1), write.deadline_ns});
  return false;
}

bool WriteQueue::begin_pages(Write& write, Turn& turn, Batch& batch) {
  const uint64_t now = turn.now_ns;
  if (now < versions_.open_ns()) return wait(write, turn, versions_.open_ns(), Code::kUnavailable);
  versions_.opened();
  if (epoch_ != nullptr && (!epoch_->puts_open(now) || !epoch_->view_valid(now))) {
    const bool given_up = wait(write, turn, now + kReplicaRetryNs, Code::kUnavailable);
    if (given_up) write.why = epoch_->why_closed(now);
    return given_up;
  }
  const auto* commit = std::get_if<CommitRequest>(&write.request);
  if (commit != nullptr && std::ranges::any_of(commit->pages, is_staged) &&
      !clients_.at(write.client).staged(commit->immediate)) {
    return wait(write, turn, now + kImmediateRetryNs, Code::kAborted);
  }
  while (write.begun < write.pages()) {
    if (turn.budget_bytes == 0) return false;
    const size_t page = write.begun;
    const Admission admission =
        replica_sender_ == nullptr ? Admission::kBegins : replica_sender_->admits(write.key(page));
    if (admission == Admission::kReachesOut || admission == Admission::kAfterAnother) {
      if (admission == Admission::kReachesOut && now >= write.deadline_ns) {
        counts_.puts_without_replica += write.pages() - page;
        write.why = replica_sender_->missing(write.key(page));
      }
      return wait(write, turn, now + kReplicaRetryNs, Code::kUnavailable);
    }
    const bool no_replica = admission == Admission::kNoReplica;
    counts_.puts_without_replica += no_replica ? 1 : 0;
    if (no_replica && write.why.empty()) write.why = replica_sender_->missing(write.key(page));
    CommitResult result = {no_replica ? Code::kUnavailable : Code::kInvalid, 0};
    if (admission == Admission::kBegins) result = begin_page(write, page);
    if (result.code == Code::kExhausted && store_.next_slot_ns() > now) {
      return wait(write, turn, store_.next_slot_ns(), Code::kExhausted);
    }
    const uint64_t payload_bytes = commit == nullptr ? 0 : commit->pages[page].payload_bytes;
    turn.budget_bytes -= std::min<uint64_t>(turn.budget_bytes, payload_bytes + kPageBytes);
    ++write.begun;
    if (result.code == Code::kOk && replica_sender_ != nullptr) {
      write.results[page] = result;
      if (!hold(write, page, batch)) write.results[page] = {Code::kAborted, 0};
    } else {
      write.results[page] = result;
    }
  }
  return true;
}

CommitResult WriteQueue::begin_page(Write& write, size_t page) {
  if (const auto* commit = std::get_if<CommitRequest>(&write.request)) {
    return put_page(clients_.at(write.client), commit->pages[page]);
  }
  return remove_page(write, write.key(page));
}

CommitResult WriteQueue::put_page(ClientSession& session, const CommitPage& page) {
  const PeerSource* source = session.source(page.source);
  if (is_staged(page) ? session.staged_payload(page).empty() : source == nullptr) {
    return {Code::kInvalid, 0};
  }
  if ((store_.must_evict() || store_.is_ranked()) && !touches_collected_) collect_touches();
  auto version = next_version();
  if (!version) return {Code::kUnavailable, 0};
  const Code code = store_page(session, page, *version);
  return {code, code == Code::kOk ? *version : 0};
}

Code WriteQueue::store_page(const ClientSession& session, const CommitPage& page, Version version) {
  const bool in_order = replica_sender_ != nullptr;
  if (is_staged(page)) {
    return store_.put(page.key, version, session.staged_payload(page), page.payload_crc, in_order,
                      session.name_space());
  }
  return store_.put(page.key, version,
                    PageStore::SourcePayload{*session.source(page.source), page.staging_offset,
                                             page.payload_bytes},
                    page.payload_crc, in_order, session.name_space());
}

// Of some clients, the next ones the next time, and of each its share, the oldest first: others
// wait in their ring.
void WriteQueue::collect_touches() {
  touches_collected_ = true;
  const uint64_t most = store_.is_ranked() ? kRankedTouches : kTouches;
  const uint64_t share = most / std::min(clients_.size(), kClientsWithTouches) + 1;
  size_t with_touches = 0;
  auto next = clients_.upper_bound(touched_last_);
  for (size_t looks = std::min(clients_.size(), kLogLooks); looks > 0; --looks, ++next) {
    if (next == clients_.end()) next = clients_.begin();
    touched_last_ = next->first;
    if (next->second.collect_touches(store_, share) > 0) ++with_touches;
    if (with_touches == kClientsWithTouches) break;
  }
}

CommitResult WriteQueue::remove_page(Write& write, const PageKey& key) {
  Version version = 0;
  bool found = false;
  if (replica_sender_ == nullptr) {
    found = store_.remove(key);
  } else {
    auto next = next_version();
    if (!next) return {Code::kUnavailable, 0};
    version = *next;
    found = store_.remove(key, version);
  }
  write.removed += found ? 1 : 0;
  counts_.removes += found ? 1 : 0;
  if (found) look_again();
  return {Code::kOk, version};
}

Result<Version> WriteQueue::next_version() {
  if (epoch_ == nullptr || epoch_->is_fixed()) return versions_.next();
  return versions_.next_in(epoch_->epoch().number);
}

// Until its replication has ended, the page stays, and no other of its key begins. False: it was
// damaged as soon as it was there.
bool WriteQueue::hold(const Write& write, size_t page, Batch& batch) {
  ReplicaPage replica;
  replica.page.key = write.key(page);
  replica.page.version = write.results[page].version;
  replica.removed = std::holds_alternative<RemoveRequest>(write.request);
  if (!replica.removed) {
    const auto stored = store_.find(replica.page.key);
    if (!stored) return false;
    replica.page.slot = stored->slot;
    replica.page.payload_bytes = stored->payload_bytes;
  }
  replica_sender_->hold(replica);
  batch.replicas.push_back(replica);
  batch.pages.push_back(page);
  return true;
}

void WriteQueue::replicated(const WritePtr& write, size_t page, Code code) {
  --write->open;
  if (code != Code::kOk) {
    write->results[page] = {code, 0};
    if (write->why.empty()) write->why = replica_sender_->missing(write->key(page));
    if (write->why.empty() && (code == Code::kTimeout || code == Code::kUnavailable)) {
      write->why = replica_sender_->unanswered(write->key(page));
    }
  }
  look_again();
  if (write->open == 0 && write->begun == write->pages()) finish(*write);
}

// The answer's last condition: this node is still the primary, as far as it can know.
void WriteQueue::judge(Write& write) {
  const bool is_primary = epoch_ == nullptr || epoch_->view_valid(runtime_.clock().now_ns());
  const auto* commit = std::get_if<CommitRequest>(&write.request);
  for (size_t page = 0; page < write.pages(); ++page) {
    CommitResult& result = write.results[page];
    if (result.code == Code::kOk && !is_primary) result = {Code::kUnavailable, 0};
    if (commit == nullptr) continue;
    if (result.code == Code::kOk) {
      ++counts_.puts;
      counts_.put_bytes += commit->pages[page].payload_bytes;
      counts_.puts_in_place += is_staged(commit->pages[page]) ? 0 : 1;
    } else {
      ++counts_.puts_refused;
    }
  }
}

void WriteQueue::finish(Write& write) {
  judge(write);
  const auto client = clients_.find(write.client);
  if (client == clients_.end() || write.done == nullptr) return;
  client->second.remove_waiting();
  const auto done = std::exchange(write.done, nullptr);
  if (std::holds_alternative<CommitRequest>(write.request)) {
    return done(CommitReply{std::move(write.results), std::move(write.why)});
  }
  const auto bad = std::ranges::find_if(
      write.results, [](const CommitResult& result) { return result.code != Code::kOk; });
  if (bad == write.results.end()) return done(RemoveReply{write.removed});
  done(Refusal{bad->code,
               "the remove is not acknowledged: " +
                   (write.why.empty() ? "not all that hold the pages have done it" : write.why),
               epoch_ == nullptr ? EpochTag{} : epoch_->tag()});
}

}  // namespace farpage
