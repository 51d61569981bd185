#pragma once

#include <cstdint>
#include <string>

#include "transport/traffic.h"
#include "transport/verbs/paths/device.h"

namespace farpage::verbs {

// Counts of a device's port from the kernel's files. Missing files are not counted.
class PortFiles {
 public:
  explicit PortFiles(const Device& device);
  // The folder of a port: "/sys/class/infiniband/rxe0/ports/1".
  explicit PortFiles(std::string folder) : folder_(std::move(folder)) {}

  uint64_t link_bits_per_s() const;  // 0: it does not say
  PortCounts counts() const;

 private:
  std::optional<uint64_t> number(const char* file) const;
  std::string folder_;
};

}  // namespace farpage::verbs
