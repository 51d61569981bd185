#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "client/embedded/embedded_options.h"
#include "client/embedded/private_folder.h"
#include "control/unix_socket.h"
#include "net/runtime/asio_runtime.h"
#include "node/node.h"
#include "transport/fabric.h"

namespace farpage {

// A memory node on threads of this process, for this user alone. With a name, the first process
// that starts it has the node, and the others that start it have its address: their pages end with
// that process, and the next one to start it begins an empty node, to which they connect by
// themselves.
class EmbeddedNode {
 public:
  // Returns once the node takes connections. `backend`: as OpenOptions has it, one for nodes at a
  // Unix socket. kInvalid: the options; kDenied: the folder of named nodes is another user's;
  // kExhausted: no memory for the pool.
  static Result<std::unique_ptr<EmbeddedNode>> start(const EmbeddedOptions& options,
                                                     const std::string& backend);
  // Ends the node, which clients of other processes see as any node's end. Not before this
  // process's own clients.
  ~EmbeddedNode();
  EmbeddedNode(const EmbeddedNode&) = delete;
  EmbeddedNode& operator=(const EmbeddedNode&) = delete;

  const std::string& path() const { return path_; }  // of its socket
  // Staging that it grants one client.
  uint64_t max_staging_bytes() const { return max_staging_bytes_; }
  // What the node here wanted, and the process had none of; none too where another has the node.
  std::optional<Error> shortage() const;

 private:
  EmbeddedNode() = default;
  Result<void> serve(const EmbeddedOptions& options, const std::string& backend,
                     const std::string& state, BoundUnixSocket socket);

  std::optional<PrivateFolder> folder_;  // of a node without a name
  std::string path_;
  uint64_t max_staging_bytes_ = 0;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<AsioRuntime> runtime_;  // ends before the fabric that its last jobs may use
  std::unique_ptr<NodeService> node_;     // the runtime's
  std::unique_ptr<ControlServer> server_;
};

}  // namespace farpage
