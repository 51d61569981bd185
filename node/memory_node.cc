#include "node/memory_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <random>
#include <utility>

#include "base/log.h"
#include "control/status/status_table.h"
#include "integrity/facts.h"
#include "pagetable/known_run.h"
#include "pagetable/touch_log.h"
#include "transport/traffic.h"

namespace farpage {
namespace {

uint64_t process_cpu_ns() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * kSecond + static_cast<uint64_t>(used.tv_nsec);
}

Refusal refusal(const Error& error) {
  return {error.code, error.message, {}};
}

// Of the 128 TiB of addresses that a process has, for the sources of all clients of all its
// tenants.
constexpr uint64_t kSourceAddresses = uint64_t{32} << 40;

MemoryBudget& source_addresses() {
  static const std::shared_ptr<MemoryBudget> kBudget = MemoryBudget::make("", kSourceAddresses);
  return *kBudget;
}

// A client's staging ends in its touch log, which is among what it has of its own: who only reads
// needs nothing else. A member puts nothing, and tells nothing of what it reads.
Result<StagingNeeds> needs_of(ClientBudget& budget, const HelloRequest& request) {
  StagingNeeds needs;
  needs.put_bytes = round_up(request.staging_bytes, kStagingAlignment);
  needs.has_log = request.node == 0;
  if (needs.put_bytes > 0) {
    auto granted = budget.take_staging(needs.put_bytes);
    if (!granted) return tl::unexpected(granted.error());
    needs.grant = std::move(*granted);
  }
  if (needs.has_log) {
    auto granted = budget.take(kTouchLogBytes, "a touch log");
    if (!granted) return tl::unexpected(granted.error());
    needs.log_grant = std::move(*granted);
  }
  return needs;
}

Pusher::Limits push_limits(const NodeOptions& options) {
  return {options.max_lanes, options.max_staging_bytes, options.reuse_ms * kMillisecond};
}

}  // namespace

Result<MemoryNode::Run> MemoryNode::make_run(const NodeOptions& options, Runtime& runtime,
                                             Fabric& fabric, std::shared_ptr<Versions> versions,
                                             std::shared_ptr<MemoryBudget> budget,
                                             PoolHandoff* keeper, std::string_view whose) {
  auto geometry = make_geometry(options.page_bytes, options.pool_bytes, options.slot_layout);
  if (!geometry) return tl::unexpected(geometry.error());
  Run run;
  std::random_device random;
  run.incarnation = (uint64_t{random()} << 32 | random()) | 1;
  auto store = PageStore::create({*geometry, run.incarnation, options.reuse_ms * kMillisecond,
                                  options.evict, options.eviction},
                                 fabric, runtime.clock(), keeper, whose);
  if (!store) return tl::unexpected(store.error());
  run.store = std::move(*store);
  run.versions = std::move(versions);
  run.budget = std::move(budget);
  return run;
}

void MemoryNode::adopt_former(const Run& run) {
  const size_t found = run.store->former();
  if (found == 0) return;
  const size_t served = run.store->adopt_all(run.versions->epoch());
  log_warning(fmt::format("recovered {1} of {0} pages from the previous run", found, served));
}

MemoryNode::MemoryNode(const NodeOptions& options, Runtime& runtime, Fabric& fabric, Run run)
    : options_(options),
      runtime_(runtime),
      fabric_(fabric),
      run_(std::move(run)),
      own_bytes_(MemoryBudget::make("", options.max_clients * kOwnBytesOfClient)),
      jobs_(runtime, fabric),
      pusher_(runtime, fabric, *run_.store, jobs_, push_limits(options_)),
      started_ns_(runtime.clock().now_ns()),
      writes_(std::make_unique<WriteQueue>(runtime, clients_, *run_.store, *run_.versions, nullptr,
                                           nullptr)) {
  if (options_.scrub_bytes_per_s == 0) return;
  scrubber_ = std::make_unique<Scrubber>(runtime, *run_.store, options_.scrub_bytes_per_s,
                                         [this](const PageKey& key) {
                                           if (member_ != nullptr) member_->repair(key);
                                         });
}

Result<std::unique_ptr<MemoryNode>> MemoryNode::create(const NodeOptions& options, Runtime& runtime,
                                                       Fabric& fabric, Run run, const Fleet& fleet,
                                                       NodeId self,
                                                       std::function<void()> left_out) {
  auto node = std::make_unique<MemoryNode>(options, runtime, fabric, std::move(run));
  MemoryNode& made = *node;
  auto member =
      FleetMember::create(made.options_, runtime, fabric, fleet, {self, made.run_.incarnation},
                          *made.run_.store, made.run_.versions->open_ns(),
                          {[&made] { made.writes_->epoch_changed(); }, std::move(left_out)});
  if (!member) return tl::unexpected(member.error());
  made.member_ = std::move(*member);
  made.writes_ =
      std::make_unique<WriteQueue>(runtime, made.clients_, *made.run_.store, *made.run_.versions,
                                   &made.member_->epoch(), &made.member_->replica_sender());
  made.member_->start();
  return node;
}

void MemoryNode::withdraw(std::function<void()> ended) {
  if (member_ != nullptr) member_->withdraw();
  writes_->refuse_waiting();
  // Collected first, because an answer that cannot be sent ends its client.
  std::vector<std::shared_ptr<Answer>> waiting;
  for (auto& [id, session] : clients_) {
    std::ranges::move(session.end_all_making(), std::back_inserter(waiting));
  }
  for (const auto& answer : waiting) {
    (*answer)(Refusal{Code::kUnavailable, "this node was left out and is coming back", {}});
  }
  writes_.reset();
  member_.reset();
  for (auto& [id, session] : std::exchange(clients_, {})) {
    pusher_.end(id);
    jobs_.end(std::move(session));
  }
  jobs_.when_ended(std::move(ended));
}

Result<ClientId> MemoryNode::connected() {
  if (clients_.size() >= options_.max_clients) {
    return fail(Code::kExhausted,
                fmt::format("this node serves {} clients already, which is node.max_clients",
                            clients_.size()));
  }
  clients_.try_emplace(++last_client_, ClientBudget(run_.budget, own_bytes_), totals_);
  return last_client_;
}

void MemoryNode::disconnected(ClientId client) {
  writes_->disconnected(client);
  if (member_ != nullptr) member_->disconnected(client);
  pusher_.end(client);
  auto gone = clients_.extract(client);
  if (gone.empty()) return;
  gone.mapped().end_all_making();
  gone.mapped().leave();
  if (!gone.mapped().holds_nothing()) jobs_.end(std::move(gone.mapped()));
}

void MemoryNode::handle(ClientId client, Request request, std::function<void(Reply)> done) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  ClientSession& session = found->second;
  if (auto* hello = std::get_if<HelloRequest>(&request))
    return this->hello(client, session, *hello, std::move(done));
  if (std::holds_alternative<StatusRequest>(request)) return done(status());
  if (auto* flush = std::get_if<FlushRequest>(&request)) return done(this->flush(*flush));
  if (!session.greeted()) {
    return done(Refusal{Code::kProtocol, "a client's first message must be a hello"});
  }
  if (auto* renew = std::get_if<RenewRequest>(&request)) return done(answer(session, *renew));
  if (auto* lane = std::get_if<OpenLaneRequest>(&request)) {
    return open_lane(client, session, *lane, std::move(done));
  }
  if (auto* source = std::get_if<SourceRequest>(&request)) {
    return done(take_source(session, std::move(*source)));
  }
  if (auto* open = std::get_if<OpenPushRequest>(&request)) {
    return pusher_.open(client, session.budget(), std::move(*open), std::move(done));
  }
  if (auto* push = std::get_if<PushRequest>(&request)) return done(pusher_.push(client, *push));
  if (auto* remove = std::get_if<RemoveRequest>(&request)) {
    return writes_->remove(client, std::move(*remove), std::move(done));
  }
  if (auto* commit = std::get_if<CommitRequest>(&request)) {
    return writes_->commit(client, std::move(*commit), std::move(done));
  }
  if (member_ != nullptr) return member_->handle(client, std::move(request), std::move(done));
  done(Refusal{Code::kInvalid, "this node serves alone, and has nothing to do with replicas"});
}

// Makes something for a client and says so, unless the client waits no more.
template <typename Made>
void MemoryNode::make(ClientId client, ClientSession& session,
                      std::function<Result<Made>(Fabric&)> made,
                      std::function<Reply(ClientSession&, Made)> reply, Answer done) {
  const std::weak_ptr<Answer> waiting = session.begin_making(std::move(done));
  auto result = std::make_shared<Result<Made>>(fail(Code::kAborted, "it was not made"));
  jobs_.run(
      [waiting, result, made = std::move(made)](Fabric& fabric) {
        if (!waiting.expired()) *result = made(fabric);
      },
      [this, client, waiting, result, reply = std::move(reply)] {
        const std::shared_ptr<Answer> answer = waiting.lock();
        if (answer == nullptr) {
          if (*result) jobs_.end(std::move(**result));
          return;
        }
        ClientSession& owner = clients_.at(client);
        owner.end_making(answer);
        (*answer)(*result ? reply(owner, std::move(**result)) : Reply(refusal(result->error())));
      });
}

void MemoryNode::hello(ClientId client, ClientSession& session, const HelloRequest& request,
                       Answer done) {
  if (auto refused = check(request)) return done(*refused);
  look_back(request);
  if (session.greeted() || session.greeting()) {
    return done(Refusal{Code::kProtocol, "this client has said hello already", {}});
  }
  auto needs = needs_of(session.budget(), request);
  if (!needs) return done(refusal(needs.error()));
  if (needs->put_bytes == 0 && !needs->has_log) {
    session.greet(std::nullopt);
    return done(greet(client, request));
  }
  // Shared, because std::function needs what can be copied.
  const auto shared = std::make_shared<StagingNeeds>(std::move(*needs));
  make<OfferedStaging>(
      client, session,
      [shared](Fabric& fabric) { return make_staging(fabric, std::move(*shared)); },
      [this, client, request](ClientSession& greeted, OfferedStaging made) -> Reply {
        // The epoch may have changed meanwhile.
        if (auto refused = check(request)) {
          jobs_.end(std::move(made.staging));
          return *refused;
        }
        greeted.greet(std::move(made.staging));
        HelloReply reply = greet(client, request);
        reply.staging = std::move(made.memory);
        reply.staging_offer = std::move(made.offer);
        return reply;
      },
      std::move(done));
}

std::optional<Refusal> MemoryNode::check(const HelloRequest& request) const {
  if (request.protocol != kControlProtocol || request.page_format != kPageFormat) {
    return Refusal{
        Code::kProtocol,
        fmt::format("this node speaks control protocol {} with page format {}, the client "
                    "{} with {}: run the same version of farpage on both",
                    kControlProtocol, kPageFormat, request.protocol, request.page_format),
        {}};
  }
  if (request.staging_bytes > options_.max_staging_bytes) {
    return Refusal{
        Code::kInvalid,
        fmt::format("the client asks for {} bytes of staging, and node.max_staging_bytes "
                    "is {}: lower client.staging_bytes",
                    request.staging_bytes, options_.max_staging_bytes),
        {}};
  }
  if (request.facts.size() > kMaxFactsBytes) {
    return Refusal{Code::kInvalid,
                   fmt::format("the client's facts have {} bytes, and {} are the most",
                               request.facts.size(), kMaxFactsBytes),
                   {}};
  }
  if (!request.facts.empty()) {
    const auto canonical = parse_facts(request.facts).and_then([](const std::vector<Fact>& facts) {
      return canonical_facts(facts);
    });
    if (!canonical) return refusal(canonical.error());
  }
  if (member_ != nullptr) return member_->check(request);
  return std::nullopt;
}

// It is the client that refuses then; the node says so where its own operator looks.
void MemoryNode::look_back(const HelloRequest& request) {
  if (member_ != nullptr && !member_->epoch().is_fixed()) return;
  const KnownRun known = {request.known_epoch, request.known_incarnation};
  if (known.epoch > kMaxEpoch || !goes_back(known, {epoch(), run_.incarnation})) return;
  newest_known_ = std::max(newest_known_, known.epoch);
  gone_back_.warn("a client refuses this node: " + gone_back(newest_known_, epoch()));
}

HelloReply MemoryNode::greet(ClientId client, const HelloRequest& request) {
  if (!request.facts.empty()) hear_facts(clients_.at(client), request.facts);
  HelloReply reply;
  if (member_ != nullptr) {
    member_->greeted(client, request);
    reply.node = member_->epoch().self().node;
    reply.membership = member_->epoch().tag();
  }
  reply.epoch = epoch();
  reply.newest_epoch = version_epoch(run_.store->highest_version());
  reply.incarnation = run_.incarnation;
  reply.reuse_ns = options_.reuse_ms * kMillisecond;
  reply.lease_ns = options_.lease_ms * kMillisecond;
  reply.page_bytes = run_.store->geometry().page_bytes;
  reply.slots = run_.store->geometry().slots;
  reply.buckets = run_.store->geometry().buckets;
  reply.slot_layout = static_cast<uint32_t>(run_.store->geometry().layout);
  reply.backend = fabric_.capabilities().backend;
  if (dynamic_cast<SourceMemory*>(&fabric_) != nullptr) reply.sources = kMaxSources;
  return reply;
}

void MemoryNode::hear_facts(ClientSession& session, const std::string& facts) {
  const std::string name_space = name_space_of(canonical_facts(parse_facts(facts).value()).value());
  run_.store->name_spaces().told(name_space, facts);
  session.set_name_space(name_space_tag(name_space));
}

// A client asks again and again, so that others' messages do not wait for all of it. A cursor is 1
// and the slot to go on with; 0 begins, and ends. Where a replica is about to read pages, the same
// slots come again.
FlushReply MemoryNode::flush(const FlushRequest& request) {
  constexpr uint64_t kSlotsAtOnce = 8'192;
  const uint64_t slots = run_.store->slots().size();
  const uint64_t first = std::min(request.cursor - (request.cursor > 0 ? 1 : 0), slots);
  const uint64_t end = std::min(first + kSlotsAtOnce, slots);
  if (request.name_space == 0) return {};
  const PageStore::Flushed flushed = run_.store->flush(
      request.name_space, static_cast<uint32_t>(first), static_cast<uint32_t>(end));
  FlushReply reply;
  reply.evicted = flushed.evicted;
  if (end < slots) reply.next = end + 1;
  if (flushed.pinned > 0) reply.next = first + 1;
  return reply;
}

void MemoryNode::open_lane(ClientId client, ClientSession& session, const OpenLaneRequest& request,
                           Answer done) {
  if (auto replaced = session.take_lane(request.replaces)) jobs_.end(std::move(*replaced));
  if (session.lanes() >= options_.max_lanes) {
    return done(Refusal{
        Code::kExhausted,
        fmt::format("this client has {} lanes open, which is node.max_lanes", session.lanes()),
        {}});
  }
  make<OfferedLane>(
      client, session, [&store = *run_.store](Fabric& fabric) { return make_lane(fabric, store); },
      [](ClientSession& owner, OfferedLane made) -> Reply {
        made.reply.lane = owner.add_lane(std::move(made.lane));
        return std::move(made.reply);
      },
      std::move(done));
}

// To map a file takes no time; to end the mapping of a large one does.
Reply MemoryNode::take_source(ClientSession& session, SourceRequest request) {
  if (!request.memory) {
    if (auto ended = session.take_source(request.source)) jobs_.end(std::move(*ended));
    return SourceReply{};
  }
  auto* fabric = dynamic_cast<SourceMemory*>(&fabric_);
  if (fabric == nullptr || request.source == 0 || session.source(request.source) != nullptr) {
    return Refusal{Code::kInvalid, "this memory cannot be read in place", {}};
  }
  auto grant = source_addresses().take(std::min(request.memory->bytes, kSourceAddresses + 1));
  if (!grant || session.sources() == kMaxSources) {
    return Refusal{Code::kExhausted, "no more of this client's memory is read in place", {}};
  }
  auto memory = fabric->import_source(std::move(*request.memory));
  if (!memory) return refusal(memory.error());
  session.add_source(request.source, {std::move(*grant), std::move(*memory)});
  return SourceReply{};
}

Reply MemoryNode::answer(ClientSession& session, const RenewRequest& request) {
  ++renewals_;
  session.report(request.verdicts);
  RenewReply reply = {run_.incarnation, {}, 0};
  if (member_ == nullptr) return reply;
  if (const auto age_ns = member_->epoch().view_age_ns(runtime_.clock().now_ns())) {
    reply.epoch = member_->epoch().tag();
    reply.view_age_ns = *age_ns;
  }
  return reply;
}

uint64_t MemoryNode::epoch() const {
  const bool is_registered = member_ != nullptr && !member_->epoch().is_fixed();
  return is_registered ? member_->epoch().epoch().number : run_.versions->epoch();
}

StatusReply MemoryNode::status() const {
  StatusReply reply;
  reply.backend = fabric_.capabilities().backend;
  reply.path = fabric_.capabilities().path;
  reply.epoch = epoch();
  reply.incarnation = run_.incarnation;
  reply.uptime_ns = runtime_.clock().now_ns() - started_ns_;
  reply.cpu_ns = process_cpu_ns();
  reply.page_bytes = run_.store->geometry().page_bytes;
  reply.slots = run_.store->geometry().slots;
  reply.slots_live = run_.store->slots().live_count();
  reply.slots_free = run_.store->slots().free_count();
  reply.slots_cooling = run_.store->slots().cooling_count();
  reply.clients = totals_.greeted;
  reply.puts = writes_->counts().puts;
  reply.put_bytes = writes_->counts().put_bytes;
  reply.puts_refused = writes_->counts().puts_refused;
  reply.puts_in_place = writes_->counts().puts_in_place;
  reply.sources = totals_.sources;
  reply.removes = writes_->counts().removes;
  reply.evictions = run_.store->evictions();
  reply.renewals = renewals_;
  reply.verdicts = totals_.verdicts;
  reply.budget = {run_.budget->bytes(), run_.budget->granted_bytes(), run_.budget->refused()};
  reply.pushes = pusher_.counts();
  reply.name_spaces = run_.store->name_spaces().status(reply.page_bytes);
  if (scrubber_ != nullptr) reply.scrubs = scrubber_->counts();
  if (member_ != nullptr) {
    member_->describe(reply.fleet);
    reply.fleet.puts_without_replica = writes_->counts().puts_without_replica;
  }
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

}  // namespace farpage
