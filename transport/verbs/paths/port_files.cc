#include "transport/verbs/paths/port_files.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>

namespace farpage::verbs {
namespace {

// port_xmit_data and port_rcv_data count words of 4 bytes: Linux,
// Documentation/ABI/stable/sysfs-class-infiniband.
constexpr uint64_t kWordBytes = 4;

std::optional<uint64_t> times(std::optional<uint64_t> count, uint64_t factor) {
  if (count) *count *= factor;
  return count;
}

}  // namespace

PortFiles::PortFiles(const Device& device)
    : folder_(fmt::format("/sys/class/infiniband/{}/ports/{}", device.name, device.port)) {}

// "100 Gb/sec (4X EDR)"
uint64_t PortFiles::link_bits_per_s() const {
  std::ifstream file(folder_ + "/rate");
  double gigabits = 0;
  std::string unit;
  if (!(file >> gigabits >> unit) || unit != "Gb/sec" || gigabits < 0 || gigabits > 1e6) return 0;
  return static_cast<uint64_t>(std::llround(gigabits * 1e9));
}

// rxe has no counters of a port, and counts packets among those of its hardware.
PortCounts PortFiles::counts() const {
  PortCounts counts;
  counts.sent_bytes = times(number("counters/port_xmit_data"), kWordBytes);
  counts.received_bytes = times(number("counters/port_rcv_data"), kWordBytes);
  counts.sent_packets = number("counters/port_xmit_packets");
  counts.received_packets = number("counters/port_rcv_packets");
  if (!counts.sent_packets) counts.sent_packets = number("hw_counters/sent_pkts");
  if (!counts.received_packets) counts.received_packets = number("hw_counters/rcvd_pkts");
  return counts;
}

std::optional<uint64_t> PortFiles::number(const char* file) const {
  uint64_t value = 0;
  if (!(std::ifstream(folder_ + "/" + file) >> value)) return std::nullopt;
  return value;
}

}  // namespace farpage::verbs
