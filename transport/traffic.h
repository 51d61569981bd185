#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farpage {

// Traffic of one path of a fabric (a listening address, a rail) for its peers since the fabric was
// made.
struct PathTraffic {
  std::string path;          // for people; no two of a fabric are the same
  uint64_t connections = 0;  // open now
  uint64_t reads = 0;
  uint64_t read_bytes = 0;
  uint64_t writes = 0;
  uint64_t write_bytes = 0;
  uint64_t refused = 0;  // operations and connections
};

// Of a fabric that sees what its peers read and write. Optional: ask for it with
// dynamic_cast<const TrafficSource*>. Thread-safe.
class TrafficSource {
 public:
  virtual ~TrafficSource() = default;
  virtual std::vector<PathTraffic> traffic() const = 0;
};

// Traffic of a device's port since it was started, for every process of its host. Absent: the
// device does not count it.
struct PortCounts {
  std::optional<uint64_t> sent_bytes;
  std::optional<uint64_t> received_bytes;
  std::optional<uint64_t> sent_packets;
  std::optional<uint64_t> received_packets;
};

// A port by which peers reach a fabric's memory one-sided: the device answers them, and this is all
// that its host sees of it.
struct PortTraffic {
  std::string port;              // for people, "rxe0 at 10.9.0.1"; no two of a fabric are the same
  uint64_t link_bits_per_s = 0;  // as the device says; 0: it does not
  uint64_t connections = 0;      // of peers, open now
  uint64_t refused = 0;          // connections, since the fabric was made
  uint64_t immediates = 0;  // that have come, each behind a transfer, since the fabric was made
  PortCounts counts = {};
};

// Of a fabric whose peers are answered by devices. Optional, as TrafficSource is. Thread-safe.
class PortSource {
 public:
  virtual ~PortSource() = default;
  virtual std::vector<PortTraffic> ports() const = 0;
};

// One way from this host to a peer, and what a fabric's own channels have done over it since the
// fabric was made.
struct PathUse {
  std::string path;              // for people, "rxe0 -> 10.9.0.2"; no two of a fabric are the same
  uint64_t link_bits_per_s = 0;  // of the device here, as it says; 0: it does not
  uint64_t connections = 0;      // open now
  uint64_t connected = 0;        // in all: what is more than a channel's first is dialled again
  uint64_t failed = 0;           // connections that did not come about
  uint64_t broken = 0;           // connections that were given up: broken, or silent for too long
  uint64_t reads = 0;            // as the device counts: one may serve several pages, or a part
  uint64_t read_bytes = 0;       // that have come
  uint64_t writes = 0;
  uint64_t write_bytes = 0;
};

// Of a fabric that chooses among paths. Optional, as TrafficSource is. Thread-safe.
class PathSource {
 public:
  virtual ~PathSource() = default;
  virtual std::vector<PathUse> paths() const = 0;
};

}  // namespace farpage
