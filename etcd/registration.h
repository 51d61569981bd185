#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "etcd/absences.h"
#include "etcd/away.h"
#include "etcd/fleet_reader.h"

namespace farpage::etcd {

// That a node's process lives, told to etcd under a lease; and the watch over the others: a member
// whose lease has ended is left out by a new epoch, which any node may begin. A node that could not
// hear of etcd itself for a while leaves no member out before the others have had a lease's time to
// come back. So does a process that has begun anew with its own run before, in whose place it will
// join as soon as it has its memory: only if that lasts longer.
//
// It has a thread of its own. etcd's lease says only who is silent: what may be read and put, the
// views decide (protocol rule 12).
class Registration {
 public:
  // On a thread of the registration's.
  struct Hooks {
    // Another process has this one's name, which is to end, and why; again until it does.
    std::function<void(const std::string&)> ends;
    // Whether others have all that this one held, so that it may end; again and again.
    std::function<void(bool)> drained;
  };
  struct Options {
    NodeRecord self;
    Terms terms;           // refused, if the fleet was begun with others
    uint64_t ttl_s = 5;    // of the lease
    uint64_t call_ns = 0;  // how long one call to etcd may take, once it is registered
    Hooks hooks;
  };

  // Begins the fleet, if no node has. Waits, for two leases at most, for an earlier process of this
  // name to be known as dead, unless that had the same state file. `reader` outlives it.
  static Result<std::unique_ptr<Registration>> begin(FleetReader& reader, const Options& options);
  // The lease ends on its own, in its time: as if the process had died.
  ~Registration();

  // In good order: begins an epoch without this node, if others are in it, and ends the lease.
  void leave();

  // Which members this process, one of them in this epoch, has not heard of for a while. Once that
  // is what all others say too, a new epoch begins without them. Thread-safe.
  void tell_away(uint64_t epoch, const std::vector<NodeId>& nodes);

  uint64_t fleet_id() const { return fleet_id_; }
  // That this process is the one that is registered. Thread-safe.
  Condition registered() const;

 private:
  Registration(FleetReader& reader, const Options& options);

  Result<FleetReader::Record> read();
  Result<void> agree();
  // kExists: another process has this name.
  Result<void> enroll(bool first);
  void keep();
  Result<void> keep_once(uint64_t begun_ns);
  bool is_own(const NodeRecord* record) const;
  bool is_silent(const FleetRecord& fleet, const Member& member) const;
  void leave_out_silent(const FleetRecord& fleet);
  AwayRecord away_for_long(uint64_t epoch);
  Result<void> say_away(const AwayRecord& away);
  Result<void> leave_out_unreached(const FleetRecord& fleet, bool is_sure);
  void leave_out(const FleetRecord& fleet, const std::vector<NodeId>& nodes,
                 const std::string& why);
  Result<bool> replace(const FleetRecord& fleet, Epoch next);
  uint64_t deadline() const;
  void end_thread();
  bool wait(uint64_t ns);  // false: it ends

  FleetReader& reader_;
  Client& client_;
  const Options options_;
  uint64_t fleet_id_ = 0;
  LeaseId lease_ = 0;
  std::optional<uint64_t> former_;  // run of this node, which was a member when this process began
  std::atomic<Revision> record_revision_{0};
  std::optional<uint64_t> heard_since_ns_;  // of etcd, without a break
  uint64_t heard_ns_ = 0;                   // when the last round began in which it answered
  bool told_of_trouble_ = false;
  // No nodes: there is none in etcd. Nothing: that is not known.
  std::optional<AwayRecord> away_written_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Absences absences_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace farpage::etcd
