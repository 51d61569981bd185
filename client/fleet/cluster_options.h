#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "base/units.h"
#include "net/address/address.h"
#include "net/dial.h"
#include "net/runtime/asio_runtime.h"
#include "tier/link/fleet.h"

namespace farpage {

struct NamedNode {
  std::string name;
  Address address;
};

// The table [cluster]: the memory nodes that hold each other's replicas, as a list that is the same
// at every node and client.
struct ClusterOptions {
  std::string nodes = {};  // "NAME=ADDRESS,NAME=ADDRESS"; empty: one node, which serves alone
  uint64_t replicas = 2;   // of every page
  uint64_t seed = 0;       // of the placement
  uint64_t page_bytes = 64 * kKiB;  // the nodes' node.page_bytes

  bool is_given() const { return !nodes.empty(); }
  Result<std::vector<NamedNode>> list() const;
  Result<Epoch> epoch() const;
};
// A client's; a node has page_bytes of its own.
std::vector<ConfigField> fields(ClusterOptions& options);

struct NodeCluster : ClusterOptions {
  std::string name;     // which of them this node is
  std::string address;  // with etcd: where others reach it; empty: where it listens
};
std::vector<ConfigField> fields(NodeCluster& options);

// The nodes that belong together, and how each is reached.
class ReachableFleet {
 public:
  virtual ~ReachableFleet() = default;
  // Of use as long as this lives.
  virtual Fleet fleet() const = 0;
  // Of the register that gives out its epochs, another one for each that was begun; 0: a list.
  virtual uint64_t register_id() const { return 0; }
  // A node's own last word: it serves nothing any more.
  virtual void leave() {}
};

// One that is reached by the addresses of its list.
class ListedFleet final : public ReachableFleet {
 public:
  // `runtime` outlives it.
  static Result<std::unique_ptr<ListedFleet>> make(const ClusterOptions& options,
                                                   AsioRuntime& runtime,
                                                   const ClientCredentials& credentials,
                                                   uint64_t connect_ms);

  Fleet fleet() const override;

 private:
  ListedFleet() = default;

  Epoch epoch_;
  std::unordered_map<NodeId, std::unique_ptr<ControlDialer>> dialers_;
};

}  // namespace farpage
