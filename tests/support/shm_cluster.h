#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "control/unix_socket.h"
#include "node/node.h"
#include "tests/support/temp_dir.h"
#include "tier/client.h"
#include "transport/shm/shm_fabric.h"

namespace farpage {

// A node and its clients in one process, over a real Unix socket and real shared memory.
class ShmCluster {
 public:
  explicit ShmCluster(NodeOptions options = small_options()) : options_(std::move(options)) {
    options_.listen = dir_ / "node.sock";
    options_.state = dir_ / "node.state";
    start();
  }
  ~ShmCluster() { stop(); }

  static NodeOptions small_options() {
    NodeOptions options;
    options.page_bytes = 4 * kKiB;
    options.pool_bytes = 4 * kMiB;
    options.reuse_ms = 20;
    options.lease_ms = 1'000;
    return options;
  }

  void start() {
    runtime_ = std::make_unique<AsioRuntime>();
    fabric_ = shm::make_shm_fabric();
    node_ = make_memory_node(options_, *runtime_, *fabric_).value();
    server_ = listen_unix(*runtime_, options_.listen, *node_).value();
  }
  void stop() {
    server_.reset();
    runtime_.reset();
    node_.reset();
    fabric_.reset();
  }
  void restart() {
    stop();
    start();
  }

  std::unique_ptr<Client> connect(ClientOptions options = {}) {
    options.staging_bytes = std::min(options.staging_bytes, options_.page_bytes * 256);
    if (dialer_ == nullptr) dialer_ = make_unix_dialer(client_runtime_, options_.listen).value();
    return Client::connect(options, client_runtime_, *client_fabric_, *dialer_).value();
  }

  const NodeOptions& options() const { return options_; }

 private:
  TempDir dir_;
  NodeOptions options_;
  std::unique_ptr<AsioRuntime> runtime_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<ControlService> node_;
  std::unique_ptr<ControlServer> server_;
  AsioRuntime client_runtime_;
  std::unique_ptr<Fabric> client_fabric_ = shm::make_shm_fabric();
  std::unique_ptr<ControlDialer> dialer_;
};

}  // namespace farpage
