#pragma once

#include <set>
#include <string>
#include <vector>

#include "doctor/finding/finding.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

// For how much of the time all threads of a control group may run, in each period.
struct CpuQuota {
  double cores = 0;  // 0: there is none
  double period_ms = 0;
  std::string file;       // where it stands,
  std::string unlimited;  // and what in it means that there is none
};

struct CpuFacts {
  uint64_t cores = 0;           // that this process may use
  CpuQuota quota;               // the least of its groups'
  bool is_arm = false;          // its names for the same instructions are others
  std::set<std::string> flags;  // of /proc/cpuinfo
  std::string governor;         // empty: not readable
};

CpuFacts read_cpu(const HostFiles& files);

Finding check_cores(const CpuFacts& facts, const Privileges& privileges);
Finding check_crc_instructions(const CpuFacts& facts);
Finding check_governor(const CpuFacts& facts, const Privileges& privileges);
Finding check_virtual_machine(const CpuFacts& facts);

}  // namespace farpage::doctor
