#pragma once

#include <memory>
#include <string>

#include "transport/fabric.h"

namespace farpage::ucx {

struct UcxOptions {
  // Every peer is trusted with all of this process's registered memory, and its bytes are parsed by
  // UCX unchecked. Without it nothing is served: allocate_readable and offer_channel refuse.
  bool trusted_clients = false;
  // Also paths on which the peer's CPU answers every read (tcp, cma, memory that cannot be
  // attached). There UCX 1.13 reads and writes whatever lies where a region has been, and a client
  // that goes with a read under way ends the node's process.
  bool allow_emulated = false;
  std::string transports = {};  // as UCX_TLS: "rc", "posix", "sysv,rc"; empty: UCX chooses
  std::string devices = {};     // as UCX_NET_DEVICES: "mlx5_0:1"; empty: all
};

// Any fabric that UCX 1.13 reads from one-sidedly: RDMA over rc, and posix or sysv shared memory on
// one host. Capabilities::path and one_sided say what the connections made so far have got.
//
// protects_regions is false: UCX maps every region for reading and writing. Reads and writes end by
// themselves, or when close() has moved their queue pair to the error state and it is drained; then
// nothing lands any more, on every path: shared memory is copied inside post(), and where the
// peer's CPU answers, an answer is copied inside poll() alone. A write over rc that has left may
// land until the peer closes its end or destroys the region.
Result<std::unique_ptr<Fabric>> make_ucx_fabric(const UcxOptions& options);

}  // namespace farpage::ucx
