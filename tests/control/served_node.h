#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include "control/unix_socket.h"
#include "node/node.h"
#include "tests/control/raw_peer.h"
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
    inner_.handle(client, std::move(request), std::move(done));
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

 private:
  Runtime& runtime_;
  ControlService& inner_;
  std::atomic<int> connected_ = 0;
  std::atomic<int> disconnected_ = 0;
  std::atomic<int> handled_ = 0;
};

// A memory node behind a real Unix socket.
class ServedNode {
 public:
  explicit ServedNode(uint64_t max_clients = 1024) {
    options_.listen = dir_ / "node.sock";
    options_.state = dir_ / "node.state";
    options_.page_bytes = 4 * kKiB;
    options_.pool_bytes = kMiB;
    options_.lease_ms = 100;
    options_.max_clients = max_clients;
    options_.max_lanes = 4;
    node_ = make_memory_node(options_, runtime_, *fabric_).value();
    service_ = std::make_unique<CountedService>(runtime_, *node_);
    server_ = listen_unix(runtime_, options_.listen, *service_).value();
  }
  ~ServedNode() { server_.reset(); }

  const std::string& path() const { return options_.listen; }
  AsioRuntime& runtime() { return runtime_; }
  CountedService& service() { return *service_; }
  void stop() { server_.reset(); }
  RawPeer connect() const { return RawPeer::connect(options_.listen); }
  TempDir& dir() { return dir_; }

  bool wait(const std::function<bool()>& ready) {
    return runtime_.wait_until(runtime_.clock().now_ns() + 20 * kSecond, ready);
  }
  bool wait_disconnected(int count) {
    return wait([&] { return service_->disconnected_count() >= count; });
  }
  // What ended connections have left behind on the runtime has run.
  void settle() {
    for (int i = 0; i < 3; ++i) runtime_.run([] {});
  }

 private:
  TempDir dir_;
  NodeOptions options_;
  AsioRuntime runtime_;
  std::unique_ptr<Fabric> fabric_ = shm::make_shm_fabric();
  std::unique_ptr<ControlService> node_;
  std::unique_ptr<CountedService> service_;
  std::unique_ptr<ControlServer> server_;
};

}  // namespace farpage
