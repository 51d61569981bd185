#pragma once

#include <map>
#include <string>
#include <vector>

#include "doctor/finding/finding.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

struct TcpSettingsFacts {
  // The value in /proc/sys/net of each sysctl that is there and readable.
  std::map<std::string, std::vector<uint64_t>> sysctls;
  bool has_ipv6 = false;       // the kernel speaks it
  bool ipv6_disabled = false;  // net.ipv6.conf.all.disable_ipv6
  bool has_ipv6_address = false;
};

TcpSettingsFacts read_tcp_settings(const HostFiles& files);

// One finding for each sysctl that matters.
std::vector<Finding> check_tcp_sysctls(const TcpSettingsFacts& facts, const Privileges& privileges);
Finding check_ipv6(const TcpSettingsFacts& facts, const Privileges& privileges);

}  // namespace farpage::doctor
