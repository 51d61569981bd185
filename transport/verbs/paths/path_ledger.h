#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "net/address/resolve.h"
#include "transport/traffic.h"
#include "transport/verbs/paths/device.h"

namespace farpage::verbs {

// Traffic of one connection. The thread of its channel writes, any thread reads.
struct PathCounters {
  Counter reads;
  Counter read_bytes;
  Counter writes;
  Counter write_bytes;
  Counter broken;  // 1 if it was given up
};

// Traffic of each path of a fabric's channels, from this host's device to the peer's address.
// Thread-safe; nothing here is called on the way of a fetch.
class PathLedger {
 public:
  // Paths that it keeps; beyond that it forgets one that has no connection, if there is one.
  static constexpr size_t kMost = 1'024;

  explicit PathLedger(std::shared_ptr<const Devices> devices) : devices_(std::move(devices)) {}

  // A connection has come about; it is open for as long as its counters are held. `device`: its
  // number, or devices.size() where it is unknown.
  std::shared_ptr<PathCounters> connected(size_t device, const Endpoint& to);
  void failed(size_t device, const Endpoint& to);

  std::vector<PathUse> paths() const;

 private:
  struct Path {
    size_t device = 0;
    uint64_t heard_of = 0;  // the number of the last event
    PathUse ended;          // what connections that are no more have done, and what is not theirs
    std::vector<std::shared_ptr<PathCounters>> open;
  };
  Path& path(size_t device, const Endpoint& to);
  void make_room();
  static void fold_ended(Path& path);

  const std::shared_ptr<const Devices> devices_;
  mutable std::mutex mutex_;                   // of what follows
  mutable std::map<std::string, Path> paths_;  // by name
  uint64_t events_ = 0;
};

}  // namespace farpage::verbs
