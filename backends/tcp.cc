#include "backends/registration.h"
#include "doctor/backends/backend_tcp.h"
#include "transport/tcp/tcp_fabric.h"

namespace farpage {
namespace {

Result<FabricOfBackend> make(const FabricOptions& options) {
  auto made =
      tcp::make_tcp_fabric({.credentials = options.credentials, .io_threads = options.io_threads});
  if (!made) return tl::unexpected(made.error());
  FabricOfBackend result;
  result.take_data = [fabric = made->get()](std::unique_ptr<Stream> stream,
                                            const Introduction& introduction) {
    fabric->accept(std::move(stream), introduction);
  };
  result.fabric = std::move(*made);
  return result;
}

}  // namespace

// Data goes over the port that control goes over.
const BackendRegistration kTcpBackend = {
    .host = &doctor::kTcpCheck,
    .nodes_at = NodesAt::kTcpPort,
    .make = make,
};

}  // namespace farpage
