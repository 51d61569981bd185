#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "chaos/processes/child.h"
#include "chaos/processes/network.h"
#include "chaos/processes/plan.h"

namespace farpage::processes {

struct FleetOptions {
  bool has_network = true;  // tcp between hosts; else shm, and etcd on the loopback
  uint64_t nodes = 3;
  uint64_t replicas = 2;
  uint64_t page_bytes = 4096;
  uint64_t pool_bytes = 32 << 20;
  uint64_t lease_ms = 500;
  uint64_t ttl_s = 2;
  std::string folder;   // for logs, state files, sockets, etcd's data
  std::string program;  // that nodes run
};

// Memory nodes, each `farpage node` in a process of its own, and the etcd that knows them: one
// member. It also supervises the processes, as a machine does: it restarts one that has ended.
// All of it belongs to one thread, and ends with it.
class Fleet {
 public:
  // Returns before any of them serves. With a network, before the process has any other thread.
  static Result<std::unique_ptr<Fleet>> start(const FleetOptions& options);

  const std::string& endpoints() const { return endpoints_; }  // etcd's
  std::string address(size_t node) const;

  // The target must be undisturbed so far.
  Result<void> begin(const Disturbance& disturbance) { return set(disturbance, true); }
  Result<void> end(const Disturbance& disturbance) { return set(disturbance, false); }
  // Starts what has ended by itself, or is to start again. Call it often.
  Result<void> tend();

  // Nodes that a signal has ended which was not sent to them, or that do not end when they should.
  const std::vector<std::string>& crashes() const { return crashes_; }
  // How often a node has ended by itself, with a word, and was started again.
  uint64_t starts_again() const { return starts_again_; }

 private:
  struct Process {
    std::optional<Child> child;
    bool wanted = true;
    uint64_t start_ns = 0;    // not before
    std::set<int> ordered;    // to end, by these signals
    uint64_t ordered_ns = 0;  // the last time
  };

  explicit Fleet(const FleetOptions& options) : options_(options), processes_(options.nodes + 1) {}
  size_t etcd() const { return options_.nodes; }
  size_t host(const Disturbance& disturbance) const {
    return is_of_etcd(disturbance.kind) ? etcd() : disturbance.node;
  }
  Result<void> choose_addresses();
  Result<void> start(size_t number);
  Result<void> set(const Disturbance& disturbance, bool on);
  void order(size_t number, int signal);
  void look_after(size_t number, uint64_t now_ns);
  ChildOptions etcd_options() const;
  ChildOptions node_options(size_t node) const;
  std::string file(const std::string& name) const { return options_.folder + "/" + name; }
  std::string log(size_t number) const;

  const FleetOptions options_;
  std::string etcd_program_;
  std::string endpoints_;
  std::string etcd_peer_;
  std::unique_ptr<Network> network_;
  std::vector<Process> processes_;  // the nodes', and etcd's
  std::vector<std::string> crashes_;
  uint64_t starts_again_ = 0;
};

}  // namespace farpage::processes
