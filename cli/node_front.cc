#include "cli/node_front.h"

#include <optional>

#include "cli/backend.h"
#include "control/tcp_control.h"
#include "control/unix_socket.h"
#include "transport/shm/shm_fabric.h"
#include "transport/tcp/tcp_fabric.h"

namespace farpage {
namespace {

class UnixFront final : public NodeFront {
 public:
  UnixFront(std::string path, std::unique_ptr<Fabric> fabric)
      : path_(std::move(path)), fabric_(std::move(fabric)) {}

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
  std::unique_ptr<Fabric> fabric_;
  std::optional<BoundUnixSocket> socket_;  // until it is served
  std::unique_ptr<ControlServer> server_;
};

// One port for control and, with the tcp backend, data.
class TcpFront final : public NodeFront {
 public:
  // `data`: what takes connections for data; null: nothing, they are dropped.
  TcpFront(Address listen, NodeCredentials credentials, std::unique_ptr<Fabric> fabric,
           tcp::TcpFabric* data)
      : listen_(std::move(listen)),
        credentials_(std::move(credentials)),
        fabric_(std::move(fabric)),
        data_(data) {}

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
               if (data_ != nullptr) data_->accept(std::move(stream), introduction);
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
  std::unique_ptr<Fabric> fabric_;
  tcp::TcpFabric* const data_;
  std::optional<ListeningSocket> socket_;  // until it is served
  std::optional<TcpControlServer> server_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<NodeFront>> NodeFront::make(const NodeFrontOptions& options) {
  const auto backend = choose_backend(options.backend, options.listen);
  if (!backend) return tl::unexpected(backend.error());
  std::unique_ptr<Fabric> fabric;
  tcp::TcpFabric* data = nullptr;
  if (*backend == "shm") {
    fabric = shm::make_shm_fabric();
  } else if (*backend == "tcp") {
    auto made = tcp::make_tcp_fabric(
        {.credentials = {{}, options.credentials.tls}, .io_threads = options.io_threads});
    if (!made) return tl::unexpected(made.error());
    data = made->get();
    fabric = std::move(*made);
  } else {
    auto made = make_own_way_fabric(*backend, options.backends);
    if (!made) return tl::unexpected(made.error());
    fabric = std::move(*made);
  }
  if (!options.listen.is_tcp()) {
    return std::make_unique<UnixFront>(options.listen.path, std::move(fabric));
  }
  return std::make_unique<TcpFront>(options.listen, options.credentials, std::move(fabric), data);
}

}  // namespace farpage
