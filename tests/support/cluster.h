#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "control/tcp_control.h"
#include "control/unix_socket.h"
#include "net/listener.h"
#include "node/node.h"
#include "tests/support/certificates.h"
#include "tests/support/temp_dir.h"
#include "tier/client.h"
#include "transport/shm/shm_fabric.h"
#include "transport/tcp/tcp_fabric.h"
#ifdef FARPAGE_HAS_UCX
#include "transport/ucx/ucx_fabric.h"
#endif

namespace farpage {

enum class Path : uint8_t { kShm, kTcp, kTls, kUcx };

inline std::string path_name(const testing::TestParamInfo<Path>& info) {
  constexpr std::array kNames = {"shm", "tcp", "tls", "ucx"};
  return kNames[static_cast<size_t>(info.param)];
}

// Over posix shared memory, both ends of it.
inline std::unique_ptr<Fabric> make_ucx_on_host() {
#ifdef FARPAGE_HAS_UCX
  return ucx::make_ucx_fabric({.trusted_clients = true, .transports = "posix"}).value();
#else
  return nullptr;
#endif
}

// A node and its clients in one process, over real sockets.
class Cluster {
 public:
  explicit Cluster(Path path = Path::kShm, NodeOptions options = small_options())
      : path_(path), options_(std::move(options)) {
    options_.state = dir_ / "node.state";
    address_.path = dir_ / "node.sock";
    if (!is_on_host()) address_ = {.path = "", .host = "127.0.0.1", .port = 0};
    if (path_ == Path::kTls) {
      const TestCa ca(dir_ / "");
      node_credentials_.tls = TlsContext::for_node(ca.issue("node")).value();
      ca_file_ = ca.file();
      credentials_.tls =
          TlsContext::for_client({.certificate = "", .key = "", .ca = ca_file_}).value();
    }
    start();
    client_fabric_ = is_on_host() ? make_host_fabric()
                                  : tcp::make_tcp_fabric({.credentials = credentials_}).value();
  }
  ~Cluster() { stop(); }

  static NodeOptions small_options() {
    NodeOptions options;
    options.page_bytes = 4 * kKiB;
    options.pool_bytes = 4 * kMiB;
    options.reuse_ms = 100;
    options.lease_ms = 1'000;
    options.scrub_bytes_per_s = 0;
    return options;
  }

  void start() {
    runtime_ = std::make_unique<AsioRuntime>();
    if (is_on_host()) {
      fabric_ = make_host_fabric();
      node_ = make_memory_node(options_, *runtime_, *fabric_).value();
      unix_server_ = listen_unix(*runtime_, address_.path, *node_).value();
      return;
    }
    auto fabric = tcp::make_tcp_fabric({.io_threads = 2}).value();
    node_ = make_memory_node(options_, *runtime_, *fabric).value();
    tcp_server_.emplace(*runtime_, *node_);
    listener_ =
        Listener::listen(
            address_, node_credentials_,
            {.control = [this](std::unique_ptr<Stream> stream,
                               const Introduction&) { tcp_server_->take(std::move(stream)); },
             .data =
                 [data = fabric.get()](std::unique_ptr<Stream> stream,
                                       const Introduction& introduction) {
                   data->accept(std::move(stream), introduction);
                 }})
            .value();
    address_ = listener_->address();
    fabric_ = std::move(fabric);
  }
  void stop() {
    listener_.reset();
    tcp_server_.reset();
    unix_server_.reset();
    if (runtime_ != nullptr) runtime_->run([this] { node_.reset(); });
    runtime_.reset();
    fabric_.reset();
  }
  // The node's own thread does nothing until go_on(); it moves bytes all the same.
  void hold() {
    is_held_.store(true);
    runtime_->after(0, [this] { is_held_.wait(true); });
  }
  void go_on() {
    is_held_.store(false);
    is_held_.notify_all();
  }
  void restart() {
    stop();
    start();
  }

  std::unique_ptr<Client> connect(const ClientOptions& options = {}) {
    return connect(options, address_);
  }
  // By another way.
  std::unique_ptr<Client> connect(ClientOptions options, const Address& address) {
    options.staging_bytes = std::min(options.staging_bytes, options_.page_bytes * 256);
    if (dialer_ == nullptr) {
      dialer_ = make_dialer(client_runtime_, address, credentials_, options.connect_ms).value();
    }
    return Client::connect(options, client_runtime_, *client_fabric_, *dialer_).value();
  }

  Runtime& client_runtime() { return client_runtime_; }
  const NodeOptions& options() const { return options_; }
  const Address& address() const { return address_; }
  Path path() const { return path_; }
  const std::string& ca_file() const { return ca_file_; }  // that signed the node's certificate

 private:
  bool is_on_host() const { return path_ == Path::kShm || path_ == Path::kUcx; }
  std::unique_ptr<Fabric> make_host_fabric() const {
    return path_ == Path::kShm ? shm::make_shm_fabric() : make_ucx_on_host();
  }

  Path path_;
  std::atomic<bool> is_held_{false};
  TempDir dir_;
  NodeOptions options_;
  Address address_;
  std::string ca_file_;
  NodeCredentials node_credentials_;
  ClientCredentials credentials_;
  std::unique_ptr<AsioRuntime> runtime_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<ControlService> node_;
  std::unique_ptr<ControlServer> unix_server_;
  std::optional<TcpControlServer> tcp_server_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Fabric> client_fabric_;
  AsioRuntime client_runtime_;
  std::unique_ptr<ControlDialer> dialer_;
};

}  // namespace farpage
