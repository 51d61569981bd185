#include "node/fleet/fleet_member.h"

#include <fmt/format.h>

#include <algorithm>

#include "pagetable/guards.h"
#include "tier/link/membership.h"

namespace farpage {
namespace {

constexpr uint64_t kWatchesPerLease = 8;
constexpr uint64_t kReportBytes = 4 * kMiB;  // looked at for one report
constexpr size_t kMostAsked = 256;           // keys that are whole, or missing, a second

}  // namespace

Result<std::unique_ptr<FleetMember>> FleetMember::create(const NodeOptions& options,
                                                         Runtime& runtime, Fabric& fabric,
                                                         const Fleet& fleet, const Member& self,
                                                         PageStore& store, uint64_t opens_ns,
                                                         Hooks hooks) {
  auto landing = PoolLanding::create(fabric, store);
  if (!landing) return tl::unexpected(landing.error());
  return std::unique_ptr<FleetMember>(new FleetMember(options, runtime, fabric, fleet, self, store,
                                                      std::move(*landing), opens_ns,
                                                      std::move(hooks)));
}

FleetMember::FleetMember(const NodeOptions& options, Runtime& runtime, Fabric& fabric,
                         const Fleet& fleet, const Member& self, PageStore& store,
                         PoolLanding landing, uint64_t opens_ns, Hooks hooks)
    : runtime_(runtime),
      fabric_(fabric),
      fleet_(fleet),
      store_(store),
      lease_ms_(options.lease_ms),
      hooks_(std::move(hooks)),
      gate_(std::make_shared<FabricGate>(fabric)),
      landing_(std::move(landing)),
      epoch_(runtime, fleet, self, options.page_bytes,
             {[this] { entered(); }, [this] { hooks_.left_out(); }, met()}),
      watchers_(runtime, epoch_),
      foreign_(runtime, store, epoch_, options.lease_ms * kMillisecond,
               [this] { epoch_.killed(); }),
      holdings_(runtime, store, epoch_, foreign_),
      replica_sender_(
          runtime, store, epoch_, [this](NodeId node) { return peer(node); },
          [this] { epoch_.look(); }),
      replica_(
          runtime, store, epoch_, opens_ns,
          [this](NodeId node) {
            MemberLink* found = peer(node);
            return found == nullptr ? nullptr : &found->reader();
          },
          [this](NodeId node) {
            const MemberLink* found = peer(node);
            return found != nullptr && found->reached();
          }),
      backfill_(
          runtime, store, epoch_, options.fill_bytes_per_s,
          [this](NodeId node) { return peer(node); }, [this] { epoch_.look(); }) {}

// Null: a fleet whose members need not meet.
std::function<Result<void>(const RegisteredEpoch&)> FleetMember::met() {
  if (fleet_.membership == nullptr) return nullptr;
  return [this](const RegisteredEpoch& read) {
    return meeting_ == nullptr ? Result<void>() : meeting_->with_all(read);
  };
}

FleetMember::~FleetMember() {
  gate_->close();
}

void FleetMember::start() {
  if (fleet_.membership != nullptr) {
    meeting_ = std::make_unique<Meeting>(runtime_, fabric_, gate_, fleet_, epoch_.self());
    look_back_ = std::make_unique<LookBack>(runtime_, std::string(fabric_.capabilities().backend),
                                            fleet_, [this] { epoch_.look(); });
  }
  epoch_.start();
  watch();
}

MemberLink* FleetMember::peer(NodeId node) const {
  const auto found = peers_.find(node);
  return found == peers_.end() ? nullptr : found->second.peer.get();
}

void FleetMember::withdraw() {
  replica_sender_.abort_at_once(Code::kOtherEpoch);
  replica_.abort(Code::kOtherEpoch);
  backfill_.abort();
  watchers_.withdraw();
}

// In the protocol's order: it is decided that own puts end, what others sent ends, and then what is
// of no use to this node any more is killed, in turns. Puts have their answers in turns, too.
void FleetMember::entered() {
  meeting_.reset();
  replica_sender_.abort(Code::kOtherEpoch);
  replica_.abort(Code::kOtherEpoch);
  backfill_.abort();
  foreign_.begin_epoch();
  holdings_.begin_epoch();
  for (const auto& [session, hello] : members_) {
    if (!may_be_member(hello)) replica_.end(session);
  }
  for (auto& [node, known] : peers_) {
    if (epoch_.epoch().find(node) != nullptr) continue;
    known.peer->reader().end();
    leaving_.push_back(std::move(known.peer));
  }
  std::erase_if(peers_, [](const auto& known) { return known.second.peer == nullptr; });
  reach_for_others();
  std::set<NodeId> others;
  for (const Member& member : epoch_.epoch().members) {
    if (member.node != epoch_.self().node) others.insert(member.node);
  }
  backfill_.begin_epoch(std::move(others));
  for (auto& [node, known] : peers_) {
    if (known.link_number != 0) backfill_.fill_from(node, false);
  }
  hooks_.epoch_changed();
  watchers_.begin_epoch();
}

void FleetMember::reach_for_others() {
  for (const Member& member : epoch_.epoch().members) {
    if (member.node == epoch_.self().node || peers_.contains(member.node)) continue;
    HelloExpectations terms;
    terms.self = epoch_.self().node;
    terms.incarnation = epoch_.self().incarnation;
    terms.peer = member.node;
    terms.page_bytes = epoch_.epoch().page_bytes;
    terms.epoch = [this] { return epoch_.tag(); };
    terms.fixed = epoch_.is_fixed();
    peers_[member.node].peer = std::make_unique<MemberLink>(
        runtime_, fabric_, gate_, fleet_.dialer(member.node), terms, landing_, lease_ms_);
  }
}

// Every new link begins a fill: this node, or the other one, may have missed something.
void FleetMember::watch() {
  std::erase_if(leaving_, [](const auto& peer) { return peer->reader().at_rest(); });
  for (auto& [node, known] : peers_) {
    known.peer->reader().advance();
    if (known.link_number == known.peer->link_number() || !known.peer->reached()) continue;
    known.link_number = known.peer->link_number();
    backfill_.fill_from(node, true);
  }
  tell_away();
  runtime_.after(lease_ms_ * kMillisecond / kWatchesPerLease,
                 [this, alive = std::weak_ptr<bool>(alive_)] {
                   if (!alive.expired()) watch();
                 });
}

void FleetMember::tell_away() const {
  if (fleet_.membership == nullptr || epoch_.epoch().number == 0) return;
  std::vector<NodeId> away;
  for (const auto& [node, known] : peers_) {
    if (known.peer->away()) away.push_back(node);
  }
  fleet_.membership->tell_away(epoch_.epoch().number, away);
}

std::optional<Refusal> FleetMember::check(const HelloRequest& hello) const {
  if (epoch_.is_fixed() && hello.epoch != epoch_.tag()) {
    return Refusal{
        Code::kInvalid,
        hello.epoch == EpochTag{}
            ? fmt::format("this node is one of {}: name all of them", epoch_.epoch().members.size())
            : std::string("this node was told another list of nodes, another number of replicas "
                          "or another length of pages: they are the same at every node and client"),
        epoch_.tag()};
  }
  if (!may_be_member(hello)) {
    if (look_back_ != nullptr) return look_back_->answer(hello.node, hello.incarnation);
    return Refusal{Code::kOtherEpoch, "this run of the member was left out of the epoch",
                   epoch_.tag()};
  }
  const bool is_other = hello.node == 0 || (hello.node != epoch_.self().node &&
                                            epoch_.epoch().find(hello.node) != nullptr);
  if (is_other || !epoch_.is_fixed()) return std::nullopt;
  return Refusal{Code::kInvalid, "a node with this name is no other member: each has its own name",
                 epoch_.tag()};
}

// With a register, a run of another node (rule 9). One that is ahead of this node may know better,
// until this node has entered that epoch too.
bool FleetMember::may_be_member(const HelloRequest& hello) const {
  if (hello.node == 0 || epoch_.is_fixed()) return true;
  if (hello.epoch.number > epoch_.epoch().number) return true;
  const Member* member = epoch_.epoch().find(hello.node);
  return member != nullptr && member->incarnation == hello.incarnation;
}

void FleetMember::greeted(ClientId client, const HelloRequest& hello) {
  if (hello.node == 0) return;
  if (hello.epoch.number > epoch_.epoch().number) epoch_.look();
  members_[client] = hello;
  replica_.begin(client, hello.node);
}

void FleetMember::disconnected(ClientId client) {
  watchers_.disconnected(client);
  if (members_.erase(client) == 0) return;
  replica_.end(client);
  holdings_.disconnected(client);
}

void FleetMember::handle(ClientId client, Request request, std::function<void(Reply)> done) {
  if (auto* replicate = std::get_if<ReplicateRequest>(&request)) {
    if (replicate->epoch.number > epoch_.epoch().number) epoch_.look();
    return replica_.replicate(client, std::move(*replicate), std::move(done));
  }
  if (auto* holdings = std::get_if<HoldingsRequest>(&request)) {
    if (holdings->epoch.number > epoch_.epoch().number) epoch_.look();
    return done(answer(client, *holdings));
  }
  if (auto* epoch = std::get_if<EpochRequest>(&request)) {
    const bool waits = epoch->known.number != 0 && !epoch_.is_fixed();
    if (waits) return watchers_.add(client, epoch->known, std::move(done));
    return done(whole_epoch());
  }
  done(answer(std::get<ReportRequest>(request)));
}

EpochReply FleetMember::whole_epoch() const {
  EpochReply reply;
  const auto age_ns = epoch_.view_age_ns(runtime_.clock().now_ns());
  if (!age_ns) return reply;
  const Epoch& epoch = epoch_.epoch();
  reply = {epoch_.tag(), *age_ns, epoch.replicas, epoch.seed, epoch.page_bytes, {}};
  for (const Member& member : epoch.members) {
    reply.members.push_back({member.node, member.incarnation, member.leaving, member.slot,
                             fleet_.address_of ? fleet_.address_of(member.node) : ""});
  }
  return reply;
}

Reply FleetMember::answer(ClientId client, const HoldingsRequest& request) {
  if (request.epoch != epoch_.tag() && enforced(Guard::kEpochInMessages)) {
    return Refusal{Code::kOtherEpoch, "this member is in another epoch", epoch_.tag()};
  }
  const auto member = members_.find(client);
  if (member == members_.end()) return Refusal{Code::kDenied, "only a member asks for holdings"};
  return holdings_.answer(client, member->second.node, request);
}

// Nothing is believed but what lies here (protocol rule 16).
Reply FleetMember::answer(const ReportRequest& request) {
  ReportReply reply;
  std::vector<PageKey> wanted;
  uint64_t looked_bytes = 0;
  for (const PageKey& key : request.keys) {
    const auto stored = store_.find(key);
    if (looked_bytes >= kReportBytes) break;
    if (stored) {
      looked_bytes += std::min<uint64_t>(stored->payload_bytes, store_.geometry().page_bytes);
    }
    const bool drops = stored && store_.check(key) == Code::kAborted;
    reply.dropped += drops ? 1 : 0;
    if (drops || may_be_stale(key)) wanted.push_back(key);
  }
  reply.newest_epoch = version_epoch(store_.highest_version());
  dropped_ += reply.dropped;
  if (!wanted.empty()) backfill_.repair(wanted);
  return reply;
}

// That what is whole is the newest, only the others know; they are asked of so many keys a second,
// whatever is reported.
bool FleetMember::may_be_stale(const PageKey& key) {
  if (!epoch_.holds(key)) return false;
  const uint64_t now = runtime_.clock().now_ns();
  if (now - asked_since_ns_ >= kSecond) {
    asked_since_ns_ = now;
    asked_.clear();
  }
  return asked_.size() < kMostAsked && asked_.insert(key).second;
}

void FleetMember::describe(FleetStatus& status) const {
  status.node = epoch_.self().node;
  status.replicas = epoch_.epoch().replicas;
  for (const auto& [node, known] : peers_) status.others.push_back({node, known.peer->reached()});
  status.replicated = replica_sender_.replicated();
  status.applied = replica_.applied();
  const Backfill::Counts fills = backfill_.counts();
  status.filled = fills.pages;
  status.filled_bytes = fills.bytes;
  status.to_fill = fills.left;
  status.repaired = fills.repairs;
  status.dropped = dropped_;
}

}  // namespace farpage
