#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/registration.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "cli/client/signals.h"
#include "client/embedded/private_folder.h"
#include "net/address/address.h"

namespace farpage {

struct OwnNodeOptions {
  const BackendRegistration* backend = nullptr;
  BackendOptions backends = {};
  uint64_t pool_bytes = 0;  // of each
  uint64_t page_bytes = 0;
  uint64_t nodes = 1;  // more than one hold each other's replicas
  uint64_t replicas = 1;
};

// A memory node of this program's own: `farpage node` in a process of its own. It ends with this
// object, and with the thread that started it, whatever becomes of that.
class OwnNode {
 public:
  // Returns once the node serves, or with its own message when it cannot. `words`: what it needs
  // to be told besides --ready-fd.
  static Result<std::unique_ptr<OwnNode>> start(std::vector<std::string> words,
                                                const Interrupts& interrupts);
  ~OwnNode();
  OwnNode(const OwnNode&) = delete;
  OwnNode& operator=(const OwnNode&) = delete;

  const Address& address() const { return address_; }
  // At once, with SIGKILL.
  void kill();

 private:
  OwnNode() = default;
  Result<void> spawn(std::vector<std::string> words, const UniqueFd& ready);
  void stop();
  void reap();

  Address address_;
  pid_t pid_ = -1;
};

// One node that serves alone, or several that hold each other's replicas, on sockets in a private
// folder or on free ports of the loopback.
class OwnNodes {
 public:
  static Result<std::unique_ptr<OwnNodes>> start(const OwnNodeOptions& options,
                                                 const Interrupts& interrupts);

  const Address& address() const { return nodes_.front()->address(); }
  // Staging that each of them grants one client: less than a node by default where memory is short.
  uint64_t max_staging_bytes() const { return max_staging_bytes_; }
  // As the table [cluster] takes it; empty: one that serves alone.
  const std::string& list() const { return list_; }
  // The last one; its name.
  std::string kill_one();

 private:
  OwnNodes(PrivateFolder folder, uint64_t max_staging_bytes)
      : folder_(std::move(folder)), max_staging_bytes_(max_staging_bytes) {}
  Result<Address> new_address(const std::string& name, NodesAt nodes_at) const;

  PrivateFolder folder_;
  const uint64_t max_staging_bytes_;
  std::string list_;
  std::vector<std::unique_ptr<OwnNode>> nodes_;
};

}  // namespace farpage
