#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/tier/staging/offered_stagings.h"
#include "tier/link/fleet_link.h"

namespace farpage {

inline constexpr uint64_t kViewNs = 100 * kMillisecond;
inline constexpr uint64_t kDialNs = 2 * kSecond;  // of a host that swallows what is sent

// A register that says what the test says.
class ToldRegister final : public EpochRegister {
 public:
  explicit ToldRegister(Runtime& runtime) : runtime_(runtime) {}
  void read(std::function<void(Result<RegisteredEpoch>)> done) override {
    ++reads;
    if (!answers) return;
    runtime_.after(kMicrosecond, [this, done = std::move(done)] { done(now); });
  }
  void replace(uint64_t, Epoch, std::function<void(Result<void>)>) override {}
  void confirm(NodeId, uint64_t, std::function<void(Result<void>)>) override {}
  RegisteredEpoch now;
  bool answers = true;
  uint64_t reads = 0;

 private:
  Runtime& runtime_;
};

// One node, and the way there.
class OneNode final : public ControlDialer {
 public:
  OneNode(sim::SimFabric& fabric, NodeId node)
      : runtime_(fabric.runtime()), node_(node), stagings_(fabric) {}

  void dial(DialCallback done) override {
    ++dials;
    runtime_.after(answers ? kMicrosecond : kDialNs, [this, done = std::move(done)] {
      if (!answers) return done(fail(Code::kTimeout, "no answer in time"));
      done(std::make_shared<Link>(*this));
    });
  }

  bool answers = true;
  uint64_t dials = 0;
  EpochTag membership;
  EpochTag view;     // that it tells of with renewals
  EpochReply epoch;  // that it answers with
  uint64_t asked = 0;
  std::vector<ReplyCallback> waiting;  // for the next epoch
  uint64_t view_age_ns = 0;
  uint64_t lease_ns = kSecond;

 private:
  struct Link final : ControlLink {
    explicit Link(OneNode& of) : node(of) {}
    void call(Request request, ReplyCallback done) override {
      const auto* epoch = std::get_if<EpochRequest>(&request);
      const bool waits = epoch != nullptr && epoch->known.number != 0;
      node.runtime_.after(0, [&at = node, kind = request.index(), waits, done = std::move(done)] {
        if (waits) return at.waiting.push_back(done);
        done(at.answer(kind));
      });
    }
    void close() override {}
    const Peer& peer() const override { return nowhere; }
    OneNode& node;
    const Peer nowhere;
  };

  template <typename Kind>
  static bool is(size_t kind) {
    return Request(Kind{}).index() == kind;
  }

  Result<Reply> answer(size_t kind) {
    if (!answers) return fail(Code::kUnavailable, "gone");
    if (is<RenewRequest>(kind)) return Reply(RenewReply{1000 + node_, view, view_age_ns});
    if (is<EpochRequest>(kind)) {
      ++asked;
      return Reply(epoch);
    }
    HelloReply hello;
    hello.epoch = 1;
    hello.incarnation = 1000 + node_;
    hello.reuse_ns = kMillisecond;
    hello.lease_ns = lease_ns;
    hello.page_bytes = 512;
    hello.slots = 16;
    hello.buckets = 4;
    hello.node = node_;
    hello.membership = membership;
    stagings_.offer(hello);
    return Reply(std::move(hello));
  }

  Runtime& runtime_;
  const NodeId node_;
  OfferedStagings stagings_;
};

class FleetLinks : public testing::Test {
 protected:
  ~FleetLinks() override {
    link_->stop();
    run_for(10 * kSecond);
  }

  OneNode& node(NodeId id) {
    auto& found = nodes_[id];
    if (!found) found = std::make_unique<OneNode>(fabric_, id);
    return *found;
  }
  void run_for(uint64_t ns) { world_.run_until(world_.now_ns() + ns); }
  static Epoch epoch(uint64_t number, const std::vector<NodeId>& nodes, bool registered = true) {
    Epoch epoch{number, 1, 1, 512, {}};
    for (const NodeId id : nodes) epoch.members.push_back({id, registered ? 1000 + id : 0});
    epoch.give_slots();
    return epoch;
  }
  void enter(uint64_t number, const std::vector<NodeId>& nodes) {
    register_.now = {};
    register_.now.epoch = epoch(number, nodes);
    register_.now.confirmed = nodes;
  }
  void make(const Epoch& list, bool registered) {
    Fleet fleet;
    fleet.list = list;
    fleet.epochs = registered ? &register_ : nullptr;
    fleet.view_ns = registered ? kViewNs : 0;
    fleet.dialer = [this](NodeId id) -> ControlDialer& { return node(id); };
    fleet.heard_of = [this](uint64_t, NodeId id, const std::string& address) {
      heard_[id] = address;
    };
    ClientOptions options;
    options.staging_bytes = 0;
    options.rest_ms = rest_ms_;
    link_ = std::make_shared<FleetLink>(options, fabric_.runtime(), fabric_, fleet);
  }
  void join() {
    make(register_.now.epoch, true);
    ASSERT_TRUE(link_->connect());
    use_all();
  }
  // Of the epoch that there is.
  void use_all() {
    for (const auto& link : link_->links()) link->start();
    run_for(10 * kMicrosecond);
  }
  std::shared_ptr<NodeSession> link_to(NodeId id) {
    for (const auto& link : link_->links()) {
      if (link->peer() == id) return link;
    }
    return nullptr;
  }

  uint64_t rest_ms_ = 0;
  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  std::map<NodeId, std::unique_ptr<OneNode>> nodes_;
  std::map<NodeId, std::string> heard_;  // addresses
  ToldRegister register_{fabric_.runtime()};
  std::shared_ptr<FleetLink> link_;
};

}  // namespace farpage
