#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>

#include "base/runtime.h"
#include "control/codec.h"
#include "control/link.h"
#include "sim/sim_wire.h"

namespace farpage {

// One of a connection's ends, on the runtime of its host.
struct SimEnd {
  size_t host;
  Runtime& runtime;
};

// Both ends of one control connection. Messages travel encoded and in order, with seeded delays:
// one that arrives is the oldest on its way. Between hosts that are parted they wait, as TCP makes
// them.
class SimConnection : public std::enable_shared_from_this<SimConnection> {
 public:
  SimConnection(SimWire& wire, SimEnd caller, SimEnd node, ControlService& service)
      : wire_(wire), caller_(caller), node_(node), service_(&service) {}

  size_t caller() const { return caller_.host; }
  size_t node() const { return node_.host; }

  bool joins(size_t a, size_t b) const {
    return SimWire::pair(a, b) == SimWire::pair(caller_.host, node_.host);
  }

  void call(Request request, ReplyCallback done);

  // The process at the node's end is no more.
  void node_gone() { service_ = nullptr; }
  // Nothing arrives any more, and neither end is told.
  void silence() { silent_ = true; }
  void lose_caller_end(uint64_t delay_ns);
  void lose_node_end();
  // The two hosts are no longer parted.
  void healed();

 private:
  void arrive_at_node();
  void answer(uint64_t id, Reply reply);
  void arrive_at_caller();

  SimWire& wire_;
  const SimEnd caller_;
  const SimEnd node_;
  ControlService* service_;  // null: this end is closed
  ClientId client_id_ = 0;
  bool lost_ = false;
  bool silent_ = false;
  uint64_t last_id_ = 0;
  std::unordered_map<uint64_t, ReplyCallback> waiting_;
  std::deque<Frame> to_node_;
  std::deque<Frame> to_caller_;
  uint64_t late_to_node_ = 0;  // messages that would have arrived, were the hosts not parted
  uint64_t late_to_caller_ = 0;
};

// The caller's handle. Destroying it closes the connection.
std::shared_ptr<ControlLink> make_sim_link(std::shared_ptr<SimConnection> connection);

// Makes the connections of one host to one node; `open` gives null while no node answers.
class SimDialer final : public ControlDialer {
 public:
  using Open = std::function<std::shared_ptr<SimConnection>()>;

  SimDialer(SimWire& wire, Runtime& caller, Open open)
      : wire_(wire), caller_(caller), open_(std::move(open)) {}

  void dial(DialCallback done) override;

 private:
  SimWire& wire_;
  Runtime& caller_;
  Open open_;
};

}  // namespace farpage
