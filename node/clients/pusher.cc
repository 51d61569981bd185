#include "node/clients/pusher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace farpage {
namespace {

constexpr uint64_t kConnectNs = 2 * kSecond;
// Of all clients at one time: one that cannot be reached holds a thread until kConnectNs.
constexpr uint64_t kMostConnecting = 16;
constexpr uint64_t kLookNs = 100 * kMicrosecond;  // at writes that are under way
// Between two looks at clients' messages.
constexpr size_t kPushLanes = 64;
constexpr uint64_t kPushBytes = 4 * kMiB;

// Memory of the waiting pages, and a landing on this host: the first writer of its memory has to
// pay for it.
uint64_t lane_bytes(const OpenPushRequest& request) {
  return PushPath::kMostQueuedBytes + (request.landing.fd.valid() ? request.landing.bytes : 0);
}

}  // namespace

Pusher::Pusher(Runtime& runtime, Fabric& fabric, PageStore& store, ClientJobs& jobs,
               const Limits& limits)
    : runtime_(runtime),
      fabric_(fabric),
      store_(store),
      jobs_(jobs),
      limits_(limits),
      gate_(std::make_shared<FabricGate>(fabric)) {}

Pusher::~Pusher() {
  gate_->close();
}

Result<void> Pusher::check(const Client& client, const OpenPushRequest& request) const {
  if (!fabric_.capabilities().pushes) {
    return fail(Code::kInvalid,
                fmt::format("this node cannot push over {}, for no client can be dialled there: "
                            "fetch the pages instead, or run the node over shm or verbs",
                            fabric_.capabilities().backend));
  }
  if (client.opening) {
    return fail(Code::kExhausted, "this client has asked for a push lane that is not open yet");
  }
  if (connecting_ >= kMostConnecting) {
    return fail(Code::kExhausted, "this node connects to as many clients as it can at one time");
  }
  if (client.lanes.size() >= limits_.lanes) {
    return fail(Code::kExhausted, fmt::format("this client has {} push lanes open, which is "
                                              "node.max_lanes",
                                              client.lanes.size()));
  }
  const uint64_t slot_bytes = store_.geometry().slot_bytes();
  if (request.landing.bytes < slot_bytes || request.landing.bytes > limits_.landing_bytes) {
    return fail(Code::kInvalid,
                fmt::format("the client offers a landing of {} bytes: one slot, {} bytes, is the "
                            "least, and {}, which is node.max_staging_bytes, the most",
                            request.landing.bytes, slot_bytes, limits_.landing_bytes));
  }
  if (request.landing.access != Access::kRemoteWrite ||
      request.offer.purpose != ChannelPurpose::kStage) {
    return fail(Code::kProtocol, "the client offers a landing that is not for writing");
  }
  return {};
}

Refusal Pusher::refuse(const Error& error) {
  ++counts_.refused;
  return {error.code, error.message};
}

void Pusher::open(ClientId id, ClientBudget& budget, OpenPushRequest request,
                  std::function<void(Reply)> done) {
  Client& client = clients_[id];
  const auto replaced = std::ranges::find(client.lanes, request.replaces, &Lane::id);
  if (replaced != client.lanes.end()) {
    end(std::move(replaced->grant), *replaced->path);
    client.lanes.erase(replaced);
    --counts_.lanes;
  }
  if (auto valid = check(client, request); !valid) return done(refuse(valid.error()));
  auto granted = budget.take(lane_bytes(request), "a push lane");
  if (!granted) return done(refuse(granted.error()));
  client.opening = true;
  ++connecting_;
  const uint64_t deadline = runtime_.clock().now_ns() + kConnectNs;
  // Shared, because std::function needs what can be copied.
  runtime_.offload(
      JobClass::kConnect,
      [this, id, deadline, done = std::move(done), gate = gate_, &runtime = runtime_,
       &store = store_, &counts = counts_, alive = std::weak_ptr<bool>(alive_),
       grant = std::make_shared<MemoryBudget::Grant>(std::move(*granted)),
       asked = std::make_shared<OpenPushRequest>(std::move(request))] {
        auto path = std::make_shared<Connected>(gate->pass([&](Fabric& fabric) -> Connected {
          auto channel = fabric.connect(std::move(asked->offer), deadline);
          if (!channel) return tl::unexpected(channel.error());
          const uint64_t slot_bytes = store.geometry().slot_bytes();
          const uint64_t places = asked->landing.bytes / slot_bytes;
          auto landing = (*channel)->import_region(std::move(asked->landing),
                                                   {Access::kRemoteWrite, places * slot_bytes});
          if (!landing) return tl::unexpected(landing.error());
          return std::make_unique<PushPath>(std::move(*channel), *landing, places, store, counts);
        }));
        runtime.after(0, [this, id, path, grant, done, alive] {
          if (!alive.expired()) opened(id, std::move(*path), std::move(*grant), done);
        });
      });
}

void Pusher::opened(ClientId id, Connected path, MemoryBudget::Grant grant,
                    const std::function<void(Reply)>& done) {
  --connecting_;
  const auto found = clients_.find(id);
  if (found == clients_.end()) {
    if (path) end(std::move(grant), **path);
    return;
  }
  found->second.opening = false;
  if (!path) return done(refuse(path.error()));
  found->second.lanes.push_back({++last_lane_, std::move(grant), std::move(*path)});
  ++counts_.lanes;
  done(OpenPushReply{last_lane_});
}

void Pusher::end(MemoryBudget::Grant grant, PushPath& path) {
  jobs_.end(Remains{std::move(grant), path.take_channel()});
}

Pusher::Lane* Pusher::find(const Active& lane) {
  const auto client = clients_.find(lane.client);
  if (client == clients_.end()) return nullptr;
  auto& lanes = client->second.lanes;
  const auto found = std::ranges::find(lanes, lane.lane, &Lane::id);
  return found == lanes.end() ? nullptr : &*found;
}

Reply Pusher::push(ClientId id, const PushRequest& request) {
  const Active active = {id, request.lane};
  Lane* lane = find(active);
  if (lane == nullptr) return refuse({Code::kNotFound, "no such push lane is open"});
  const uint64_t now = runtime_.clock().now_ns();
  auto reply =
      lane->path->enqueue(request, now + std::min(request.patience_ns, limits_.patience_ns));
  if (!reply) return refuse(reply.error());
  if (!std::exchange(lane->active, true)) active_.push_back(active);
  turns_in_vain_ = 0;
  pump_in(0);
  return std::move(*reply);
}

void Pusher::end(ClientId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  for (Lane& lane : found->second.lanes) end(std::move(lane.grant), *lane.path);
  counts_.lanes -= found->second.lanes.size();
  clients_.erase(found);
}

void Pusher::pump_in(uint64_t delay_ns) {
  if (pumping_) return;
  pumping_ = true;
  runtime_.after(delay_ns, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    pumping_ = false;
    pump();
  });
}

Pusher::LaneTurn Pusher::turn(const Active& active, uint64_t now_ns) {
  Lane* lane = find(active);
  if (lane == nullptr) return {0, false};
  const auto moved = lane->path->turn(now_ns);
  if (!moved) {
    end(std::move(lane->grant), *lane->path);
    counts_.lanes -= std::erase_if(clients_.at(active.client).lanes,
                                   [&](const Lane& ended) { return ended.id == active.lane; });
    return {0, false};
  }
  lane->active = !lane->path->idle();
  return {*moved, lane->active};
}

void Pusher::pump() {
  const uint64_t now = runtime_.clock().now_ns();
  uint64_t moved_bytes = 0;
  size_t turns = std::min(active_.size(), kPushLanes);
  for (; turns > 0 && moved_bytes < kPushBytes; --turns) {
    const Active next = active_.front();
    active_.pop_front();
    const LaneTurn done = turn(next, now);
    moved_bytes += done.moved_pages * store_.geometry().slot_bytes();
    turns_in_vain_ = done.moved_pages > 0 ? 0 : turns_in_vain_ + 1;
    if (done.goes_on) active_.push_back(next);
  }
  if (active_.empty()) return;
  const bool is_idle = turns_in_vain_ > active_.size();
  if (is_idle) turns_in_vain_ = 0;
  pump_in(is_idle ? kLookNs : 0);
}

}  // namespace farpage
