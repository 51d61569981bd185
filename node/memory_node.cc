#include "node/memory_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "transport/traffic.h"

namespace farpage {
namespace {

constexpr uint64_t kPumpBytes = 4 * kMiB;  // between two looks at other clients' messages
constexpr uint64_t kImmediateRetryNs = 200 * kMicrosecond;
constexpr uint64_t kMaxPatienceNs = 60 * kSecond;
constexpr uint64_t kLeaseDriftFraction = 64;

uint64_t process_cpu_ns() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * kSecond + static_cast<uint64_t>(used.tv_nsec);
}

const Refusal kTooManyWait = {Code::kExhausted,
                              "too many requests of this client wait for their answer"};

Refusal refusal(const Error& error) {
  return {error.code, error.message};
}

}  // namespace

Result<std::unique_ptr<NodeService>> make_memory_node(const NodeOptions& options, Runtime& runtime,
                                                      Fabric& fabric) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  auto epochs = EpochFile::open(options.state);
  if (!epochs) return tl::unexpected(epochs.error());
  auto geometry = make_geometry(options.page_bytes, options.pool_bytes);
  if (!geometry) return tl::unexpected(geometry.error());

  std::random_device random;
  const uint64_t incarnation = (uint64_t{random()} << 32 | random()) | 1;
  auto store =
      PageStore::create({*geometry, incarnation, options.reuse_ms * kMillisecond, options.evict},
                        fabric, runtime.clock());
  if (!store) return tl::unexpected(store.error());
  auto epoch = epochs->advance(options.lease_ms * kMillisecond);
  if (!epoch) return tl::unexpected(epoch.error());
  return std::make_unique<MemoryNode>(options, runtime, fabric, std::move(*epochs), *epoch,
                                      incarnation, std::move(*store));
}

MemoryNode::MemoryNode(const NodeOptions& options, Runtime& runtime, Fabric& fabric,
                       EpochFile epochs, uint64_t epoch, uint64_t incarnation,
                       std::unique_ptr<PageStore> store)
    : options_(options),
      runtime_(runtime),
      fabric_(fabric),
      epochs_(std::move(epochs)),
      epoch_(epoch),
      incarnation_(incarnation),
      store_(std::move(store)),
      pusher_(runtime, fabric, *store_,
              {options_.max_lanes, options_.max_staging_bytes, options_.reuse_ms * kMillisecond}),
      started_ns_(runtime.clock().now_ns()) {
  const uint64_t lease = epochs_.previous_lease_ns();
  puts_open_ns_ = started_ns_ + lease + lease / kLeaseDriftFraction;
}

Result<ClientId> MemoryNode::connected() {
  if (clients_.size() >= options_.max_clients) {
    return fail(Code::kExhausted,
                fmt::format("this node serves {} clients already, which is node.max_clients",
                            clients_.size()));
  }
  clients_.emplace(++last_client_, fabric_);
  return last_client_;
}

void MemoryNode::disconnected(ClientId client) {
  std::erase_if(commits_,
                [client](const PendingCommit& commit) { return commit.client == client; });
  pusher_.end(client);
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  add_saturating(departed_, found->second.reported());
  clients_.erase(found);
}

void MemoryNode::handle(ClientId client, Request request, std::function<void(Reply)> done) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  ClientSession& session = found->second;
  if (auto* hello = std::get_if<HelloRequest>(&request)) return done(answer(session, *hello));
  if (std::holds_alternative<StatusRequest>(request)) return done(status());
  if (!session.greeted()) {
    return done(Refusal{Code::kProtocol, "a client's first message must be a hello"});
  }
  if (auto* renew = std::get_if<RenewRequest>(&request)) return done(answer(session, *renew));
  if (auto* lane = std::get_if<OpenLaneRequest>(&request)) return done(answer(session, *lane));
  if (auto* open = std::get_if<OpenPushRequest>(&request)) {
    return pusher_.open(client, std::move(*open), std::move(done));
  }
  if (auto* push = std::get_if<PushRequest>(&request)) return done(pusher_.push(client, *push));
  if (auto* remove = std::get_if<RemoveRequest>(&request)) {
    return remove_when_open(client, std::move(*remove), std::move(done));
  }
  if (auto* commit = std::get_if<CommitRequest>(&request)) {
    return enqueue(client, std::move(*commit), std::move(done));
  }
  done(Refusal{Code::kInvalid, "this node serves alone, and has nothing to do with replicas"});
}

Reply MemoryNode::answer(ClientSession& session, const HelloRequest& request) {
  if (request.protocol != kControlProtocol || request.page_format != kPageFormat) {
    return Refusal{
        Code::kProtocol,
        fmt::format("this node speaks control protocol {} with page format {}, the client "
                    "{} with {}: run the same version of farpage on both",
                    kControlProtocol, kPageFormat, request.protocol, request.page_format)};
  }
  if (request.staging_bytes > options_.max_staging_bytes) {
    return Refusal{
        Code::kInvalid,
        fmt::format("the client asks for {} bytes of staging, and node.max_staging_bytes "
                    "is {}: lower client.staging_bytes",
                    request.staging_bytes, options_.max_staging_bytes)};
  }
  HelloReply reply;
  if (auto greeted = session.greet(request.staging_bytes, reply); !greeted) {
    return refusal(greeted.error());
  }
  reply.epoch = epoch_;
  reply.incarnation = incarnation_;
  reply.reuse_ns = options_.reuse_ms * kMillisecond;
  reply.lease_ns = options_.lease_ms * kMillisecond;
  reply.page_bytes = store_->geometry().page_bytes;
  reply.slots = store_->geometry().slots;
  reply.buckets = store_->geometry().buckets;
  reply.backend = fabric_.capabilities().backend;
  return reply;
}

Reply MemoryNode::answer(ClientSession& session, const OpenLaneRequest& request) {
  OpenLaneReply reply;
  auto opened = session.open_lane(request, options_.max_lanes, *store_, reply);
  if (!opened) return refusal(opened.error());
  return reply;
}

// Acknowledged no sooner than a put: a client with a view of the run before this one may still read
// what the remove names (rule 9).
void MemoryNode::remove_when_open(ClientId client, RemoveRequest request,
                                  std::function<void(Reply)> done) {
  const uint64_t now = runtime_.clock().now_ns();
  if (now >= puts_open_ns_) return done(answer(request));
  if (!clients_.at(client).add_waiting()) return done(kTooManyWait);
  runtime_.after(puts_open_ns_ - now, [this, client, alive = std::weak_ptr<bool>(alive_),
                                       request = std::move(request), done = std::move(done)] {
    if (alive.expired() || !clients_.contains(client)) return;
    clients_.at(client).remove_waiting();
    done(answer(request));
  });
}

Reply MemoryNode::answer(const RemoveRequest& request) {
  RemoveReply reply;
  for (const PageKey& key : request.keys) reply.removed += store_->remove(key) ? 1 : 0;
  removes_ += reply.removed;
  if (reply.removed > 0 && !commits_.empty()) wake_at(runtime_.clock().now_ns());
  return reply;
}

Reply MemoryNode::answer(ClientSession& session, const RenewRequest& request) {
  ++renewals_;
  session.report(request.verdicts);
  return RenewReply{incarnation_};
}

VerdictCounts MemoryNode::verdicts() const {
  VerdictCounts sum = departed_;
  for (const auto& [id, client] : clients_) add_saturating(sum, client.reported());
  return sum;
}

StatusReply MemoryNode::status() const {
  StatusReply reply;
  reply.backend = fabric_.capabilities().backend;
  reply.path = fabric_.capabilities().path;
  reply.epoch = epoch_;
  reply.incarnation = incarnation_;
  reply.uptime_ns = runtime_.clock().now_ns() - started_ns_;
  reply.cpu_ns = process_cpu_ns();
  reply.page_bytes = store_->geometry().page_bytes;
  reply.slots = store_->geometry().slots;
  reply.slots_live = store_->slots().live_count();
  reply.slots_free = store_->slots().free_count();
  reply.slots_cooling = store_->slots().cooling_count();
  reply.clients = static_cast<uint64_t>(
      std::ranges::count_if(clients_, [](const auto& client) { return client.second.greeted(); }));
  reply.puts = puts_;
  reply.put_bytes = put_bytes_;
  reply.puts_refused = puts_refused_;
  reply.removes = removes_;
  reply.evictions = store_->evictions();
  reply.renewals = renewals_;
  reply.verdicts = verdicts();
  if (const auto* source = dynamic_cast<const TrafficSource*>(&fabric_)) {
    reply.sees_traffic = true;
    reply.traffic = source->traffic();
    if (reply.traffic.size() > kMaxTrafficPaths) reply.traffic.resize(kMaxTrafficPaths);
  }
  if (const auto* source = dynamic_cast<const PortSource*>(&fabric_)) {
    reply.ports = source->ports();
    if (reply.ports.size() > kMaxTrafficPaths) reply.ports.resize(kMaxTrafficPaths);
  }
  return reply;
}

void MemoryNode::enqueue(ClientId client, CommitRequest request, std::function<void(Reply)> done) {
  if (!clients_.at(client).add_waiting()) return done(kTooManyWait);
  const uint64_t patience = std::min(request.patience_ns, kMaxPatienceNs);
  const uint64_t deadline = runtime_.clock().now_ns() + patience;
  commits_.push_back({client, std::move(request), deadline, {}, std::move(done)});
  if (commits_.size() == 1) {
    pump();
  } else {
    wake_at(runtime_.clock().now_ns());
  }
}

void MemoryNode::wake_at(uint64_t time_ns) {
  if (time_ns >= wake_ns_) return;
  wake_ns_ = time_ns;
  const uint64_t now = runtime_.clock().now_ns();
  const uint64_t delay = time_ns > now ? time_ns - now : 0;
  runtime_.after(delay, [this, time_ns, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired() || wake_ns_ != time_ns) return;
    pump();
  });
}

void MemoryNode::pump() {
  wake_ns_ = kNever;
  uint64_t budget = kPumpBytes;
  uint64_t wake = kNever;
  const uint64_t now = runtime_.clock().now_ns();
  touches_collected_ = false;
  std::vector<PendingCommit> finished;
  std::vector<ClientId> blocked;  // their puts do not overtake one another
  for (size_t i = 0; i < commits_.size() && budget > 0;) {
    const ClientId client = commits_[i].client;
    if (std::find(blocked.begin(), blocked.end(), client) != blocked.end()) {
      ++i;
      continue;
    }
    if (!advance(commits_[i], now, budget, wake)) {
      blocked.push_back(client);
      ++i;
      continue;
    }
    clients_.at(client).remove_waiting();
    finished.push_back(std::move(commits_[i]));
    commits_.erase(commits_.begin() + static_cast<ptrdiff_t>(i));
  }
  if (budget == 0) wake = now;
  if (!commits_.empty() && wake != kNever) wake_at(wake);
  // Last, because an answer that cannot be sent ends its client, and with it that client's commits.
  for (const PendingCommit& commit : finished) {
    if (clients_.contains(commit.client)) commit.done(CommitReply{commit.results});
  }
}

// True: every page of the commit has its result.
bool MemoryNode::advance(PendingCommit& commit, uint64_t now_ns, uint64_t& budget_bytes,
                         uint64_t& wake_ns) {
  const auto& pages = commit.request.pages;
  const auto wait = [&](uint64_t until_ns, Code code) {
    if (now_ns >= commit.deadline_ns) {
      puts_refused_ += pages.size() - commit.results.size();
      commit.results.resize(pages.size(), {code, 0});
      return true;
    }
    wake_ns = std::min({wake_ns, std::max(until_ns, now_ns + 1), commit.deadline_ns});
    return false;
  };
  if (now_ns < puts_open_ns_) return wait(puts_open_ns_, Code::kUnavailable);
  if (epochs_.previous_lease_ns() > options_.lease_ms * kMillisecond) {
    // A failure leaves the longer lease noted: the next run waits longer than it must.
    (void)epochs_.forget_previous_lease(options_.lease_ms * kMillisecond);
  }
  ClientSession& session = clients_.at(commit.client);
  if (!session.staged(commit.request.immediate)) {
    return wait(now_ns + kImmediateRetryNs, Code::kAborted);
  }
  while (commit.results.size() < pages.size()) {
    if (budget_bytes == 0) return false;
    const CommitPage& page = pages[commit.results.size()];
    const CommitResult result = put_page(session, page);
    if (result.code == Code::kExhausted && store_->next_slot_ns() > now_ns) {
      return wait(store_->next_slot_ns(), Code::kExhausted);
    }
    budget_bytes -= std::min<uint64_t>(budget_bytes, page.payload_bytes);
    if (result.code == Code::kOk) {
      ++puts_;
      put_bytes_ += page.payload_bytes;
    } else {
      ++puts_refused_;
    }
    commit.results.push_back(result);
  }
  return true;
}

CommitResult MemoryNode::put_page(ClientSession& session, const CommitPage& page) {
  const std::span<const std::byte> payload = session.staged_payload(page);
  if (payload.empty()) return {Code::kInvalid, 0};
  if (store_->must_evict() && !touches_collected_) {
    touches_collected_ = true;
    for (auto& [id, client] : clients_) client.collect_touches(*store_);
  }
  auto version = next_version();
  if (!version) return {Code::kUnavailable, 0};
  const Code code = store_->put(page.key, *version, payload, page.payload_crc);
  return {code, code == Code::kOk ? *version : 0};
}

Result<Version> MemoryNode::next_version() {
  if (version_counter_ == kMaxVersionCounter) {
    auto epoch = epochs_.advance(options_.lease_ms * kMillisecond);
    if (!epoch) return tl::unexpected(epoch.error());
    epoch_ = *epoch;
    version_counter_ = 0;
  }
  return make_version(epoch_, ++version_counter_);
}

}  // namespace farpage
