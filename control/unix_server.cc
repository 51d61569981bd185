#include "control/served_clients.h"
#include "control/unix_socket.h"
#include "control/unix_stream.h"
#include "net/accept_loop.h"

namespace farpage {
namespace {

class UnixServer final : public ControlServer {
 public:
  UnixServer(AsioRuntime& runtime, std::shared_ptr<ServedClients> clients, BoundUnixSocket socket)
      : runtime_(runtime),
        socket_(std::move(socket)),
        clients_(std::move(clients)),
        accepting_(std::make_shared<AcceptLoop>(
            runtime, socket_.take_fd(), [clients = clients_](UniqueFd accepted) {
              clients->serve(std::make_unique<UnixStream>(std::move(accepted)));
            })) {
    runtime_.run([this] { accepting_->start(); });
  }

  ~UnixServer() override {
    runtime_.run([this] {
      accepting_->stop();
      clients_->stop();
    });
  }

 private:
  AsioRuntime& runtime_;
  BoundUnixSocket socket_;
  std::shared_ptr<ServedClients> clients_;
  std::shared_ptr<AcceptLoop> accepting_;
};

}  // namespace

std::unique_ptr<ControlServer> serve_unix(AsioRuntime& runtime, BoundUnixSocket socket,
                                          ControlService& service, const ControlLimits& limits) {
  auto clients = std::make_shared<ServedClients>(runtime, service, limits);
  return std::make_unique<UnixServer>(runtime, std::move(clients), std::move(socket));
}

Result<std::unique_ptr<ControlServer>> listen_unix(AsioRuntime& runtime, const std::string& path,
                                                   ControlService& service,
                                                   const ControlLimits& limits) {
  auto socket = BoundUnixSocket::bind(path);
  if (!socket) return tl::unexpected(socket.error());
  return serve_unix(runtime, std::move(*socket), service, limits);
}

}  // namespace farpage
