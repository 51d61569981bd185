#pragma once

#include <string>

#include "doctor/finding/finding.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

struct ClockFacts {
  int boottime_error = 0;  // errno of CLOCK_BOOTTIME; 0: it works
  uint64_t look_ns = 0;    // what one look at it takes
  std::string source;      // empty: not readable
  std::string available;   // other sources, separated by spaces
  bool is_guest = false;   // of a hypervisor, as far as that shows
};

ClockFacts read_clock(const HostFiles& files);

Finding check_boottime(const ClockFacts& facts, const Privileges& privileges);
Finding check_clock_source(const ClockFacts& facts, const Privileges& privileges);
Finding check_guest_clock(const ClockFacts& facts);

}  // namespace farpage::doctor
