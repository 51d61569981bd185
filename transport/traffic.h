#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace farpage {

// What one path of a fabric (a listening address, a rail) has carried for its peers since the
// fabric was made.
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

}  // namespace farpage
