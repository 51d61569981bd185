#include "control/tcp_control.h"

#include "control/served_clients.h"
#include "control/stream_link.h"
#include "control/unix_socket.h"
#include "net/dial_async.h"

namespace farpage {
namespace {

class TcpDialer final : public ControlDialer {
 public:
  TcpDialer(AsioRuntime& runtime, const Address& address, const ClientCredentials& credentials,
            uint64_t connect_ms)
      : runtime_(runtime), address_(address), credentials_(credentials), connect_ms_(connect_ms) {}

  // Nothing of this object is used beside it: a dial outlives its dialer.
  void dial(DialCallback done) override {
    const uint64_t deadline = runtime_.clock().now_ns() + connect_ms_ * kMillisecond;
    dial_async(runtime_, address_, credentials_, {.kind = ConnectionKind::kControl}, deadline,
               [&runtime = runtime_, name = address_.host,
                done = std::move(done)](Result<std::unique_ptr<Stream>> dialed) {
                 if (!dialed) return done(tl::unexpected(dialed.error()));
                 const Peer peer = {format_address(reached(**dialed)), name};
                 done(make_stream_link(runtime, std::move(*dialed), peer));
               });
  }

 private:
  AsioRuntime& runtime_;
  const Address address_;
  const ClientCredentials credentials_;
  const uint64_t connect_ms_;
};

}  // namespace

std::unique_ptr<ControlDialer> make_tcp_dialer(AsioRuntime& runtime, const Address& address,
                                               const ClientCredentials& credentials,
                                               uint64_t connect_ms) {
  return std::make_unique<TcpDialer>(runtime, address, credentials, connect_ms);
}

Result<std::unique_ptr<ControlDialer>> make_dialer(AsioRuntime& runtime, const Address& address,
                                                   const ClientCredentials& credentials,
                                                   uint64_t connect_ms) {
  if (!address.is_tcp()) return make_unix_dialer(runtime, address.path);
  return make_tcp_dialer(runtime, address, credentials, connect_ms);
}

TcpControlServer::TcpControlServer(AsioRuntime& runtime, ControlService& service,
                                   const ControlLimits& limits)
    : runtime_(runtime), clients_(std::make_shared<ServedClients>(runtime, service, limits)) {}

TcpControlServer::~TcpControlServer() {
  runtime_.run([this] { clients_->stop(); });
}

void TcpControlServer::take(std::unique_ptr<Stream> stream) {
  auto taken = std::make_shared<std::unique_ptr<Stream>>(std::move(stream));
  runtime_.after(0, [clients = clients_, taken] { clients->serve(std::move(*taken)); });
}

}  // namespace farpage
