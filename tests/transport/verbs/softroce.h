#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The state of the machine's devices and network, by the usual tools.
namespace farpage::contract {

// One of the device's own counts: "sent_pkts".
uint64_t device_counter(const std::string& device, const std::string& name);
uint64_t queue_pairs(const std::string& device);

// A fault between rxe0 and rxe2 for as long as it lives: "loss 100%". It says how many packets it
// has had to do with: one that has hit nothing proves nothing.
class NetworkFault {
 public:
  explicit NetworkFault(const std::string& netem);
  NetworkFault(const NetworkFault&) = delete;
  NetworkFault& operator=(const NetworkFault&) = delete;
  ~NetworkFault();

  uint64_t sent() const;
  uint64_t dropped() const;
  uint64_t queued() const;  // on their way
};

}  // namespace farpage::contract
