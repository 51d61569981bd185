#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/fleet/cluster_options.h"
#include "etcd/fleet_reader.h"
#include "etcd/options.h"
#include "etcd/records.h"
#include "etcd/register.h"
#include "etcd/registration.h"

namespace farpage {

// The table [etcd] of a node.
struct NodeEtcd : etcd::EtcdOptions {
  uint64_t ttl_s = 5;  // how long one is silent before the others leave it out

  Result<void> validate() const;
};
std::vector<ConfigField> fields(NodeEtcd& options);

// A fleet whose members and epochs are in etcd, and each is reached where it says that it is.
class EtcdFleet final : public ReachableFleet {
 public:
  // A client's: waits for connect_ms at most, until a node has begun the fleet and one of its nodes
  // lives. `runtime` outlives it.
  static Result<std::unique_ptr<EtcdFleet>> find(const etcd::EtcdOptions& options,
                                                 AsioRuntime& runtime,
                                                 const ClientCredentials& credentials,
                                                 uint64_t connect_ms);
  // A node's: begins the fleet if nobody has, and says where this node is. `cannot_join` is told,
  // on the runtime, if it does not come to be a member (Membership::cannot_join).
  static Result<std::unique_ptr<EtcdFleet>> join(
      const NodeEtcd& options, const etcd::NodeRecord& self, const etcd::Terms& terms,
      etcd::Registration::Hooks hooks, std::function<void(const std::string&)> cannot_join,
      AsioRuntime& runtime, const ClientCredentials& credentials, uint64_t connect_ms);
  ~EtcdFleet() override;

  Fleet fleet() const override;
  uint64_t register_id() const override { return terms_.id; }
  // Where one of its nodes was, when this was made.
  const std::string& first_address() const { return first_address_; }

  void leave() override;

 private:
  class Dialer;
  class NodeMembership;

  EtcdFleet(etcd::Access access, AsioRuntime& runtime, const ClientCredentials& credentials,
            uint64_t connect_ms);
  void serve(const etcd::Terms& terms);  // with the fleet's id
  ControlDialer& dialer(NodeId node);

  AsioRuntime& runtime_;
  const ClientCredentials credentials_;
  const uint64_t connect_ms_;
  etcd::Client client_;
  etcd::FleetReader reader_{client_};
  etcd::Terms terms_;
  std::string first_address_;
  std::unique_ptr<etcd::Registration> registration_;   // a node's
  std::unique_ptr<NodeMembership> membership_;         // likewise
  std::unique_ptr<etcd::Register> register_;           // the runtime's
  std::map<NodeId, std::unique_ptr<Dialer>> dialers_;  // the runtime's
};

// Of a state file, which one process at a time can hold.
uint64_t owner_of(const std::string& state_file);

}  // namespace farpage
