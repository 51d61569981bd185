#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "control/tcp_control.h"
#include "net/listener.h"
#include "node/node.h"
#include "pagetable/placement.h"
#include "tests/support/engine.h"
#include "tests/support/temp_dir.h"
#include "transport/tcp/tcp_fabric.h"

namespace farpage {

// Two nodes over TCP, each of which has half of the keys.
class TcpFleet {
 public:
  static constexpr uint64_t kPageBytes = 4 * kKiB;

  explicit TcpFleet(NodeOptions options) {
    options.page_bytes = kPageBytes;
    for (size_t number = 0; number < nodes_.size(); ++number) {
      list_.members.push_back({node_id(std::to_string(number))});
      nodes_[number].listen();
    }
    list_.give_slots();
    for (size_t number = 0; number < nodes_.size(); ++number) {
      Node& node = nodes_[number];
      options.state = dir_ / std::to_string(number);
      const Fleet fleet = fleet_for(node.runtime, node.dialers);
      node.runtime.run([&] {
        node.service =
            make_memory_node(options, node.runtime, *node.fabric, fleet, list_.members[number].node)
                .value();
      });
      node.server = std::make_unique<TcpControlServer>(node.runtime, *node.service);
      node.accepts = node.server.get();
    }
  }
  ~TcpFleet() {
    for (Node& node : nodes_) node.stop();
  }

  Fleet fleet() { return fleet_for(client_runtime, dialers_); }
  PageKey key_at(size_t node) const {
    const Placement placement(list_);
    for (uint64_t number = 0;; ++number) {
      if (placement.replicas(test_key(number)).primary() == node) return test_key(number);
    }
  }

  AsioRuntime client_runtime;

 private:
  using Dialers = std::array<std::unique_ptr<ControlDialer>, 2>;

  struct Node {
    void listen() {
      listener = Listener::listen({"", "127.0.0.1", 0}, {},
                                  {[this](std::unique_ptr<Stream> stream, const Introduction&) {
                                     TcpControlServer* taker = accepts;
                                     if (taker != nullptr) taker->take(std::move(stream));
                                   },
                                   [this](std::unique_ptr<Stream> stream, const Introduction& who) {
                                     fabric->accept(std::move(stream), who);
                                   }})
                     .value();
    }
    void stop() {
      listener.reset();
      server.reset();
      runtime.run([this] { service.reset(); });
    }

    std::unique_ptr<tcp::TcpFabric> fabric = tcp::make_tcp_fabric({.io_threads = 1}).value();
    AsioRuntime runtime;
    Dialers dialers;
    std::unique_ptr<ControlService> service;
    std::unique_ptr<TcpControlServer> server;
    std::atomic<TcpControlServer*> accepts = nullptr;  // nobody before the node is there
    std::unique_ptr<Listener> listener;
  };

  Fleet fleet_for(AsioRuntime& runtime, Dialers& dialers) {
    for (size_t number = 0; number < nodes_.size(); ++number) {
      dialers[number] = make_dialer(runtime, nodes_[number].listener->address(), {}, 2'000).value();
    }
    Fleet fleet;
    fleet.list = list_;
    fleet.dialer = [this, &dialers](NodeId id) -> ControlDialer& {
      const auto member = std::ranges::find(list_.members, id, &Member::node);
      return *dialers[static_cast<size_t>(member - list_.members.begin())];
    };
    return fleet;
  }

  TempDir dir_;
  Epoch list_ = {1, 1, 1, kPageBytes, {}};
  std::array<Node, 2> nodes_;
  Dialers dialers_;
};

}  // namespace farpage
