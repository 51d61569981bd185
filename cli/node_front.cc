#include "cli/node_front.h"

#include <optional>

#include "cli/backend.h"
#include "control/tcp_control.h"
#include "control/unix_socket.h"
#include "transport/shm/shm_fabric.h"
#include "transport/tcp/tcp_fabric.h"

namespace farpage {
namespace {

class ShmFront final : public NodeFront {
 public:
  explicit ShmFront(std::string path) : path_(std::move(path)) {}

  Fabric& fabric() override { return *fabric_; }

  Result<void> open() override {
    auto socket = BoundUnixSocket::bind(path_);
    if (!socket) return tl::unexpected(socket.error());
    socket_.emplace(std::move(*socket));
    return {};
  }

  void serve(AsioRuntime& runtime, ControlService& service, const ControlLimits& limits) override {
    server_ = serve_unix(runtime, std::move(*socket_), service, limits);
    socket_.reset();
  }

  void close() override {
    server_.reset();
    socket_.reset();
  }
  std::string address() const override { return path_; }

 private:
  std::string path_;
  std::unique_ptr<Fabric> fabric_ = shm::make_shm_fabric();
  std::optional<BoundUnixSocket> socket_;  // until it is served
  std::unique_ptr<ControlServer> server_;
};

// One port for control and data.
class TcpFront final : public NodeFront {
 public:
  TcpFront(Address listen, NodeCredentials credentials, std::unique_ptr<tcp::TcpFabric> fabric)
      : listen_(std::move(listen)),
        credentials_(std::move(credentials)),
        fabric_(std::move(fabric)) {}

  Fabric& fabric() override { return *fabric_; }

  Result<void> open() override {
    auto socket = listen_on(listen_);
    if (!socket) return tl::unexpected(socket.error());
    listen_ = socket->address;
    socket_.emplace(std::move(*socket));
    return {};
  }

  void serve(AsioRuntime& runtime, ControlService& service, const ControlLimits& limits) override {
    server_.emplace(runtime, service, limits);
    listener_ = Listener::serve(
        std::move(*socket_), credentials_,
        {.control = [this](std::unique_ptr<Stream> stream,
                           const Introduction&) { server_->take(std::move(stream)); },
         .data =
             [this](std::unique_ptr<Stream> stream, const Introduction& introduction) {
               fabric_->accept(std::move(stream), introduction);
             }});
    socket_.reset();
  }

  void close() override {
    listener_.reset();
    server_.reset();
    socket_.reset();
  }
  std::string address() const override { return format_address(listen_); }

 private:
  Address listen_;
  NodeCredentials credentials_;
  std::unique_ptr<tcp::TcpFabric> fabric_;
  std::optional<ListeningSocket> socket_;  // until it is served
  std::optional<TcpControlServer> server_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<NodeFront>> NodeFront::make(const std::string& backend,
                                                   const Address& listen,
                                                   const NodeCredentials& credentials,
                                                   uint64_t io_threads) {
  const auto chosen = choose_backend(backend, listen);
  if (!chosen) return tl::unexpected(chosen.error());
  if (*chosen == "shm") return std::make_unique<ShmFront>(listen.path);
  auto fabric =
      tcp::make_tcp_fabric({.credentials = {{}, credentials.tls}, .io_threads = io_threads});
  if (!fabric) return tl::unexpected(fabric.error());
  return std::make_unique<TcpFront>(listen, credentials, std::move(*fabric));
}

}  // namespace farpage
