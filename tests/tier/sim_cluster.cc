#include "tests/support/sim_cluster.h"

#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <unordered_map>

#include "control/codec.h"

namespace farpage {

// Both ends of one control connection. A message that arrives is the oldest on its way, so delays
// that differ never reorder.
class SimConnection : public std::enable_shared_from_this<SimConnection> {
 public:
  SimConnection(SimCluster& cluster, Runtime& client)
      : cluster_(cluster),
        client_(client),
        node_runtime_(cluster.node_fabric_->runtime()),
        node_(cluster.node_.get()) {}

  void call(Request request, ReplyCallback done) {
    ++cluster_.messages_;
    if (lost_) {
      client_.after(0, [done = std::move(done)] { done(lost_error()); });
      return;
    }
    const uint64_t id = ++last_id_;
    waiting_.emplace(id, std::move(done));
    to_node_.push_back(encode(NumberedRequest{id, std::move(request)}));
    node_runtime_.after(cluster_.control_delay(),
                        [self = shared_from_this()] { self->arrive_at_node(); });
  }

  // The process at the other end is no more.
  void node_gone() { node_ = nullptr; }

  void silence() { silent_ = true; }

  void lose_client_end(uint64_t delay_ns) {
    client_.after(delay_ns, [self = shared_from_this()] {
      self->lost_ = true;
      auto waiting = std::move(self->waiting_);
      self->waiting_.clear();
      for (auto& [id, done] : waiting) done(lost_error());
    });
  }

  void lose_node_end() {
    node_runtime_.after(cluster_.control_delay(), [self = shared_from_this()] {
      if (self->silent_) return;
      ControlService* node = std::exchange(self->node_, nullptr);
      if (node != nullptr && self->client_id_ != 0) node->disconnected(self->client_id_);
    });
  }

 private:
  static tl::unexpected<Error> lost_error() {
    return fail(Code::kUnavailable, "the simulated link is lost");
  }

  void arrive_at_node() {
    if (node_ == nullptr || silent_) return;
    if (client_id_ == 0) {
      auto connected = node_->connected();
      ASSERT_TRUE(connected) << connected.error().message;
      client_id_ = *connected;
    }
    auto message = decode_request(std::move(to_node_.front()));
    to_node_.pop_front();
    ASSERT_TRUE(message) << message.error().message;
    node_->handle(client_id_, std::move(message->request),
                  [weak = weak_from_this(), id = message->id](Reply reply) {
                    if (auto self = weak.lock()) self->answer(id, std::move(reply));
                  });
  }

  void answer(uint64_t id, Reply reply) {
    ASSERT_NE(node_, nullptr) << "an answer after disconnected()";
    to_client_.push_back(encode(NumberedReply{id, std::move(reply)}));
    client_.after(cluster_.control_delay(),
                  [self = shared_from_this()] { self->arrive_at_client(); });
  }

  void arrive_at_client() {
    if (silent_) return;
    auto message = decode_reply(std::move(to_client_.front()));
    to_client_.pop_front();
    ASSERT_TRUE(message) << message.error().message;
    const auto found = waiting_.find(message->id);
    if (found == waiting_.end()) return;
    ReplyCallback done = std::move(found->second);
    waiting_.erase(found);
    done(std::move(message->reply));
  }

  SimCluster& cluster_;
  Runtime& client_;
  Runtime& node_runtime_;
  ControlService* node_;  // null: this end is closed
  ClientId client_id_ = 0;
  bool lost_ = false;
  bool silent_ = false;
  uint64_t last_id_ = 0;
  std::unordered_map<uint64_t, ReplyCallback> waiting_;
  std::deque<Frame> to_node_;
  std::deque<Frame> to_client_;
};

namespace {

class SimLink final : public ControlLink {
 public:
  explicit SimLink(std::shared_ptr<SimConnection> connection)
      : connection_(std::move(connection)) {}
  ~SimLink() override { close(); }
  void call(Request request, ReplyCallback done) override {
    connection_->call(std::move(request), std::move(done));
  }
  void close() override {
    connection_->lose_client_end(0);
    connection_->lose_node_end();
  }
  const Peer& peer() const override { return peer_; }

 private:
  const Peer peer_;
  std::shared_ptr<SimConnection> connection_;
};

}  // namespace

class SimDialer final : public ControlDialer {
 public:
  SimDialer(SimCluster& cluster, Runtime& client) : cluster_(cluster), client_(client) {}

  void dial(DialCallback done) override {
    client_.after(cluster_.control_delay(), [this, done = std::move(done)] {
      if (cluster_.node_ == nullptr || !allowed) {
        return done(fail(Code::kUnavailable, "no node runs"));
      }
      cluster_.connections_.push_back(std::make_shared<SimConnection>(cluster_, client_));
      done(std::make_shared<SimLink>(cluster_.connections_.back()));
    });
  }

  bool allowed = true;

 private:
  SimCluster& cluster_;
  Runtime& client_;
};

NodeOptions small_sim_node() {
  NodeOptions options;
  options.page_bytes = 512;
  options.pool_bytes = 16 * (512 + sizeof(PageHeader));
  options.reuse_ms = 2;
  options.lease_ms = 20;
  return options;
}

SimCluster::SimCluster(uint64_t seed, const SimClusterOptions& options)
    : options_(options), world_(seed) {
  options_.node.listen = "simulated";
  for (uint64_t host = 0; host < options_.clients; ++host) {
    client_fabrics_.push_back(std::make_unique<sim::SimFabric>(world_, options_.network));
    dialers_.push_back(std::make_unique<SimDialer>(*this, client_fabrics_.back()->runtime()));
  }
  start_node();
}

SimCluster::~SimCluster() = default;

Result<std::unique_ptr<Client>> SimCluster::connect(size_t host, ClientOptions options,
                                                    Fabric* fabric) {
  options.staging_bytes = std::min<uint64_t>(options.staging_bytes, 64 * kKiB);
  sim::SimFabric& own = *client_fabrics_[host];
  return Client::connect(options, own.runtime(), fabric == nullptr ? own : *fabric,
                         *dialers_[host]);
}

void SimCluster::let_dial(size_t host, bool allowed) {
  dialers_[host]->allowed = allowed;
}

void SimCluster::set_network(const sim::SimOptions& options) {
  for (auto& fabric : client_fabrics_) fabric->set_options(options);
}

void SimCluster::start_node() {
  FARPAGE_CHECK(node_ == nullptr);
  const std::string state = dir_ / ("node.state." + std::to_string(++runs_));
  if (runs_ > 1) std::filesystem::copy_file(options_.node.state, state);
  options_.node.state = state;
  node_fabric_ = std::make_unique<sim::SimFabric>(world_, options_.network);
  node_ = make_memory_node(options_.node, node_fabric_->runtime(), *node_fabric_).value();
}

void SimCluster::end_node(NodeEnd end) {
  FARPAGE_CHECK(node_ != nullptr);
  for (auto& connection : connections_) {
    connection->node_gone();
    connection->lose_client_end(control_delay());
  }
  connections_.clear();
  if (end == NodeEnd::kStopped) {
    node_.reset();
  } else if (end == NodeEnd::kKilled) {
    node_fabric_->pause();
  } else {
    node_fabric_->die();
  }
  if (node_ != nullptr) former_nodes_.push_back(std::move(node_));
  former_fabrics_.push_back(std::move(node_fabric_));
}

void SimCluster::silence_links() {
  for (auto& connection : connections_) connection->silence();
}

void SimCluster::cut_links() {
  for (auto& connection : connections_) {
    connection->lose_client_end(control_delay());
    connection->lose_node_end();
  }
  // They stay known until their node ends, which may be before it hears that they are cut.
}

}  // namespace farpage
