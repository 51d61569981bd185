#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sim/network/sim_options.h"
#include "transport/fabric.h"
#include "transport/memory.h"

namespace farpage::sim {

class SimInitiator;
class SimTarget;
class World;

// A simulated machine. It outlives its fabric: operations in flight still ask whether it answers.
struct Host {
  SimOptions options;
  bool alive = true;
  bool paused = false;
  std::vector<std::function<void()>> deferred;  // callbacks that came due while it was paused
  int64_t clock_ahead_ns = 0;                   // of the world's
  int64_t wall_ahead_ns = 0;                    // of the world's
  uint64_t held_ns = 0;                         // by a hypervisor, so far and now
};

// World::wait_until with a deadline on the host's own clock, which may jump meanwhile.
bool wait_until(World& world, const Host& host, uint64_t deadline_ns,
                const std::function<bool()>& ready);

struct Registration {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  Access access = Access::kLocal;
  const Host* host = nullptr;
  uint32_t target = 0;  // kRemoteWrite: whose peer may write
};

// Those of one kind of end that are there. Identifiers start at 1 and are never used again.
template <typename End>
class Ends {
 public:
  uint32_t add(End& end) {
    ends_.push_back(&end);
    return static_cast<uint32_t>(ends_.size() - 1);
  }
  void remove(uint32_t id) { ends_[id] = nullptr; }
  End* find(uint32_t id) const { return ends_[id]; }  // nothing once it has been removed

 private:
  std::vector<End*> ends_{nullptr};
};

// State that all fabrics of one world share: hosts, registered memory, ends of channels and offers.
class Network {
 public:
  explicit Network(World& world) : world_(world) {}

  World& world() const { return world_; }
  Host& add_host(const SimOptions& options);

  // Whether anything passes between two hosts: both have power, and the network has not parted
  // them.
  bool reaches(const Host& a, const Host& b) const {
    return a.alive && b.alive && (parted_.empty() || !parted_.contains(std::minmax(&a, &b)));
  }
  void part(const Host& a, const Host& b) { parted_.insert(std::minmax(&a, &b)); }
  void heal(const Host& a, const Host& b) { parted_.erase(std::minmax(&a, &b)); }

  // A key is generation << 32 | index; it is the local key and the rkey. An index that is used
  // again has a new generation.
  uint64_t add_registration(const Registration& registration);
  void remove_registration(uint64_t key);
  const Registration* find(uint64_t key) const;  // nothing once it has been removed
  bool was_issued(uint64_t key) const;

  std::string add_offer(uint32_t target, ChannelPurpose purpose);
  // Takes it up: an offer is good for one connection.
  Result<SimTarget*> take_offer(const std::string& opaque, ChannelPurpose purpose);

  Ends<SimInitiator> initiators;
  Ends<SimTarget> targets;

 private:
  struct Entry {
    Registration registration;
    uint32_t generation = 0;
    bool registered = false;
  };
  struct Offer {
    uint64_t secret;
    uint32_t target;
    ChannelPurpose purpose;
    bool taken = false;
  };
  const Entry* entry(uint64_t key) const;

  World& world_;
  std::deque<Host> hosts_;
  std::set<std::pair<const Host*, const Host*>> parted_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_entries_;
  std::vector<Offer> offers_;
};

}  // namespace farpage::sim
