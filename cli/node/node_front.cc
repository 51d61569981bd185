#include "cli/node/node_front.h"

#include <deque>
#include <optional>
#include <vector>

#include "backends/backends.h"
#include "control/tcp_control.h"
#include "control/unix_socket.h"

namespace farpage {
namespace {

class UnixFront final : public NodeFront {
 public:
  UnixFront(std::string path, const SocketRights& rights, std::unique_ptr<Fabric> fabric)
      : path_(std::move(path)), rights_(rights), fabric_(std::move(fabric)) {}

  Fabric& fabric(size_t) override { return *fabric_; }

  Result<void> open() override {
    auto socket = BoundUnixSocket::bind(path_, rights_);
    if (!socket) return tl::unexpected(socket.error());
    socket_.emplace(std::move(*socket));
    return {};
  }

  void serve(AsioRuntime& runtime, ControlService& service, std::span<ControlService* const>,
             const ControlLimits& limits) override {
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
  SocketRights rights_;
  std::unique_ptr<Fabric> fabric_;
  std::optional<BoundUnixSocket> socket_;  // until it is served
  std::unique_ptr<ControlServer> server_;
};

// One port for control and, where the backend takes it there, data. A connection leads to the
// fabric and the service of whose token it has shown, and to no other.
class TcpFront final : public NodeFront {
 public:
  // `endpoints`: one for each tenant, or one.
  TcpFront(Address listen, NodeCredentials credentials, std::vector<FabricOfBackend> endpoints)
      : listen_(std::move(listen)),
        credentials_(std::move(credentials)),
        endpoints_(std::move(endpoints)) {}

  Fabric& fabric(size_t tenant) override { return *endpoints_[tenant].fabric; }

  Result<void> open() override {
    auto socket = listen_on(listen_);
    if (!socket) return tl::unexpected(socket.error());
    listen_ = socket->address;
    socket_.emplace(std::move(*socket));
    return {};
  }

  void serve(AsioRuntime& runtime, ControlService& service,
             std::span<ControlService* const> tenants, const ControlLimits& limits) override {
    for (ControlService* tenant : tenants) servers_.emplace_back(runtime, *tenant, limits);
    TcpControlServer& own = servers_.emplace_back(runtime, service, limits);
    listener_ = Listener::serve(
        std::move(*socket_), credentials_,
        {.control =
             [this, &own](std::unique_ptr<Stream> stream, const Introduction& introduction) {
               (introduction.tenant ? servers_[*introduction.tenant] : own).take(std::move(stream));
             },
         .data =
             [this](std::unique_ptr<Stream> stream, const Introduction& introduction) {
               if (!introduction.tenant && !credentials_.tenants.empty()) return;
               const auto& take_data = endpoints_[introduction.tenant.value_or(0)].take_data;
               if (take_data) take_data(std::move(stream), introduction);
             }});
    socket_.reset();
  }

  void close() override {
    listener_.reset();
    servers_.clear();
    socket_.reset();
  }
  std::string address() const override { return format_address(listen_); }

 private:
  Address listen_;
  NodeCredentials credentials_;
  std::vector<FabricOfBackend> endpoints_;
  std::optional<ListeningSocket> socket_;  // until it is served
  std::deque<TcpControlServer> servers_;   // of the tenants, and the node's own
  std::unique_ptr<Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<NodeFront>> NodeFront::make(const NodeFrontOptions& options) {
  const auto backend = choose_backend(options.backend, options.listen);
  if (!backend) return tl::unexpected(backend.error());
  const char* why_no_tenants = (*backend)->why_no_tenants;
  if (!options.credentials.tenants.empty() && why_no_tenants != nullptr) {
    return fail(Code::kInvalid, why_no_tenants);
  }
  std::vector<FabricOfBackend> endpoints;
  for (const ClientCredentials& peer : options.peers) {
    auto way = (*backend)->make({options.backends, peer, options.io_threads});
    if (!way) return tl::unexpected(way.error());
    endpoints.push_back(std::move(*way));
  }
  if (!options.listen.is_tcp()) {
    return std::make_unique<UnixFront>(options.listen.path, options.socket_rights,
                                       std::move(endpoints[0].fabric));
  }
  return std::make_unique<TcpFront>(options.listen, options.credentials, std::move(endpoints));
}

}  // namespace farpage
