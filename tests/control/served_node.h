#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include "control/tcp_control.h"
#include "control/unix_socket.h"
#include "net/listener.h"
#include "node/node.h"
#include "tests/control/raw_peer.h"
#include "tests/support/certificates.h"
#include "tests/support/counting_fabric.h"
#include "tests/support/temp_dir.h"
#include "transport/shm/shm_fabric.h"

namespace farpage {

// Counts what a server tells its service.
class CountedService final : public ControlService {
 public:
  CountedService(Runtime& runtime, ControlService& inner) : runtime_(runtime), inner_(inner) {}

  Result<ClientId> connected() override {
    auto client = inner_.connected();
    if (client) ++connected_;
    runtime_.notify();
    return client;
  }
  void handle(ClientId client, Request request, std::function<void(Reply)> done) override {
    inner_.handle(client, std::move(request), [this, done = std::move(done)](Reply reply) {
      ++answered_;
      done(std::move(reply));
    });
    ++handled_;
    runtime_.notify();
  }
  void disconnected(ClientId client) override {
    inner_.disconnected(client);
    ++disconnected_;
    runtime_.notify();
  }

  int connected_count() const { return connected_; }
  int disconnected_count() const { return disconnected_; }
  int handled_count() const { return handled_; }
  int answered_count() const { return answered_; }

 private:
  Runtime& runtime_;
  ControlService& inner_;
  std::atomic<int> connected_ = 0;
  std::atomic<int> disconnected_ = 0;
  std::atomic<int> handled_ = 0;
  std::atomic<int> answered_ = 0;
};

enum class Reach : uint8_t { kUnix, kTcp, kTls };

inline std::string reach_name(const ::testing::TestParamInfo<Reach>& info) {
  return info.param == Reach::kUnix ? "Unix" : info.param == Reach::kTcp ? "Tcp" : "Tls";
}

struct ServedNodeOptions {
  Reach reach = Reach::kUnix;
  uint64_t max_clients = 1024;
  uint64_t max_requests_per_s = 1'000'000;
  uint64_t silence_ns = 20 * kSecond;
  uint64_t max_unread_bytes = ControlLimits().max_unread_bytes;
  uint64_t staging_budget_bytes = 0;
};

// A memory node behind a real Unix socket, or a TCP port with a token.
class ServedNode {
 public:
  explicit ServedNode(const ServedNodeOptions& served = {}) : reach_(served.reach) {
    options_.listen = dir_ / "node.sock";
    options_.state = dir_ / "node.state";
    options_.page_bytes = 4 * kKiB;
    options_.pool_bytes = kMiB;
    options_.lease_ms = 100;
    options_.max_clients = served.max_clients;
    options_.max_lanes = 4;
    options_.staging_budget_bytes = served.staging_budget_bytes;
    if (served.staging_budget_bytes != 0) options_.max_staging_bytes = served.staging_budget_bytes;
    runtime_.run([this] { node_ = make_memory_node(options_, runtime_, held_).value(); });
    service_ = std::make_unique<CountedService>(runtime_, *node_);
    const ControlLimits limits = {served.max_requests_per_s, served.silence_ns,
                                  served.max_unread_bytes};
    if (reach_ == Reach::kUnix) {
      server_ = listen_unix(runtime_, options_.listen, *service_, limits).value();
    } else {
      listen_tcp(limits);
    }
  }
  ~ServedNode() {
    stop();
    runtime_.run([this] { node_.reset(); });
  }

  const std::string& path() const { return options_.listen; }
  Address address() const {
    return reach_ == Reach::kUnix ? parse_address(path()).value() : listener_->address();
  }
  const ClientCredentials& credentials() const { return credentials_; }
  // A hello that this node can answer: shm hands staging over as a descriptor, so over TCP it is
  // one of a member, who has none.
  HelloRequest hello() const {
    if (reach_ == Reach::kUnix) return {kControlProtocol, kPageFormat, 64 * kKiB};
    return {kControlProtocol, kPageFormat, 0, 1};
  }
  AsioRuntime& runtime() { return runtime_; }
  CountedService& service() { return *service_; }
  void stop() {
    listener_.reset();
    tcp_server_.reset();
    server_.reset();
  }
  RawPeer connect() const {
    if (reach_ == Reach::kUnix) return RawPeer::connect(options_.listen);
    const uint64_t deadline = boottime_clock().now_ns() + 20 * kSecond;
    return RawPeer(dial(listener_->address(), credentials_, {}, deadline).value());
  }
  TempDir& dir() { return dir_; }

  // It still serves another client, with a whole handshake.
  void expect_serving() {
    RawPeer peer = connect();
    peer.send(raw_request(5, hello()));
    const auto reply = peer.receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->id, 5u);
    EXPECT_TRUE(std::holds_alternative<HelloReply>(reply->reply));
  }

  bool wait(const std::function<bool()>& ready) {
    return runtime_.wait_until(runtime_.clock().now_ns() + 20 * kSecond, ready);
  }
  bool wait_disconnected(int count) {
    return wait([&] { return service_->disconnected_count() >= count; });
  }
  // Work that ended connections left on the runtime has run, and nothing of theirs, which ends on
  // other threads, is left.
  void settle() {
    for (int i = 0; i < 3; ++i) runtime_.run([] {});
    if (service_->connected_count() > service_->disconnected_count()) return;
    turn_until([this] { return held_.channels() == 0 && held_.memories() == 0; });
  }
  // Work of other threads, which wakes no one here.
  void turn_until(const std::function<bool()>& ready) {
    const uint64_t late = runtime_.clock().now_ns() + 20 * kSecond;
    while (!ready() && runtime_.clock().now_ns() < late) runtime_.run([] {});
    EXPECT_TRUE(ready());
  }

 private:
  void listen_tcp(const ControlLimits& limits) {
    credentials_.token = SharedToken{"a token of this test"};
    NodeCredentials credentials = {credentials_.token, nullptr};
    if (reach_ == Reach::kTls) {
      const TestCa ca(dir_ / "");
      credentials.tls = TlsContext::for_node(ca.issue("node")).value();
      credentials_.tls = TlsContext::for_client({"", "", ca.file()}).value();
    }
    tcp_server_ = std::make_unique<TcpControlServer>(runtime_, *service_, limits);
    const Listener::Handlers handlers = {
        [this](std::unique_ptr<Stream> stream, const Introduction&) {
          tcp_server_->take(std::move(stream));
        },
        [](std::unique_ptr<Stream>, const Introduction&) {}};
    listener_ =
        Listener::listen(parse_address("tcp://127.0.0.1:0").value(), credentials, handlers).value();
  }

  const Reach reach_;
  TempDir dir_;
  NodeOptions options_;
  ClientCredentials credentials_;
  AsioRuntime runtime_;
  std::unique_ptr<Fabric> fabric_ = shm::make_shm_fabric();
  CountingFabric held_{*fabric_};
  std::unique_ptr<ControlService> node_;
  std::unique_ptr<CountedService> service_;
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<TcpControlServer> tcp_server_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace farpage
