#include "doctor/host/tcp_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "base/units.h"

namespace farpage::doctor {
namespace {

constexpr const char* kTcpSettings = "tcp settings";
constexpr const char* kDisableIpv6 = "net.ipv6.conf.all.disable_ipv6";

struct Setting {
  const char* key;
  size_t word;  // the one that counts
  uint64_t least;
  Level level;  // when there is less
  const char* why;
};

// docs/doctor.md has the reason of each threshold.
constexpr std::array<Setting, 8> kSettings = {{
    {"net.core.somaxconn", 0, 4'096, Level::kWarning,
     "a node that starts again is dialled by all of its clients at once"},
    {"net.core.rmem_max", 0, 4 * kMiB, Level::kNote, "it caps buffers that a program sizes itself"},
    {"net.core.wmem_max", 0, 4 * kMiB, Level::kNote, "it caps buffers that a program sizes itself"},
    {"net.ipv4.tcp_rmem", 2, 4 * kMiB, Level::kWarning,
     "a smaller window does not fill a fast link"},
    {"net.ipv4.tcp_wmem", 2, 4 * kMiB, Level::kWarning,
     "a smaller buffer does not fill a fast link"},
    {"net.ipv4.tcp_moderate_rcvbuf", 0, 1, Level::kWarning,
     "without it receive buffers stay at their first size"},
    {"net.core.netdev_max_backlog", 0, 1'000, Level::kWarning,
     "a burst of pages beyond it is dropped, and sent again after a deadline"},
    {"net.ipv4.tcp_mtu_probing", 0, 1, Level::kNote,
     "over a link with a smaller MTU whose ICMP does not come through, small messages pass and "
     "pages "
     "do not"},
}};

std::string path_of(std::string key) {
  std::replace(key.begin(), key.end(), '.', '/');
  return "/proc/sys/" + key;
}

Finding check_setting(const Setting& setting, const std::vector<uint64_t>* values,
                      const Privileges& privileges) {
  Finding finding = {kTcpSettings, setting.key};
  finding.needed_by = BackendSet::with(&BackendCheck::minds_tcp_settings);
  if (values == nullptr || values->size() <= setting.word) {
    finding.level = Level::kNote;
    finding.text = "not readable here (a container's own network?): see on the host itself";
    return finding;
  }
  std::vector<uint64_t> mended = *values;
  const uint64_t value = mended[setting.word];
  if (value >= setting.least) {
    finding.text = fmt::format("{}, and {} is enough", value, setting.least);
    return finding;
  }
  mended[setting.word] = setting.least;
  finding.level = setting.level;
  finding.text = fmt::format("{}, less than {}: {}", value, setting.least, setting.why);
  finding.command = privileges.set_sysctl(setting.key, fmt::format("{}", fmt::join(mended, " ")));
  return finding;
}

}  // namespace

TcpSettingsFacts read_tcp_settings(const HostFiles& files) {
  TcpSettingsFacts facts;
  for (const Setting& setting : kSettings) {
    const auto text = files.text(path_of(setting.key));
    if (!text) continue;
    std::istringstream words(*text);
    std::vector<uint64_t>& values = facts.sysctls[setting.key];
    for (uint64_t value = 0; words >> value;) values.push_back(value);
  }
  const auto addresses = files.text("/proc/net/if_inet6");
  facts.has_ipv6 = addresses.has_value();
  facts.has_ipv6_address = addresses && !addresses->empty();
  facts.ipv6_disabled = files.number(path_of(kDisableIpv6)).value_or(0) != 0;
  return facts;
}

std::vector<Finding> check_tcp_sysctls(const TcpSettingsFacts& facts,
                                       const Privileges& privileges) {
  std::vector<Finding> findings;
  for (const Setting& setting : kSettings) {
    const auto found = facts.sysctls.find(setting.key);
    findings.push_back(check_setting(
        setting, found == facts.sysctls.end() ? nullptr : &found->second, privileges));
  }
  return findings;
}

Finding check_ipv6(const TcpSettingsFacts& facts, const Privileges& privileges) {
  Finding finding = {kTcpSettings, "ipv6", Level::kNote};
  finding.needed_by = BackendSet::with(&BackendCheck::minds_tcp_settings);
  if (!facts.has_ipv6) {
    finding.text = "this kernel has no IPv6 (or it is off since the boot): nodes listen on IPv4";
    finding.command = privileges.as_root("modprobe ipv6");
  } else if (facts.ipv6_disabled || !facts.has_ipv6_address) {
    finding.text = facts.ipv6_disabled ? "IPv6 is disabled: nodes listen on IPv4"
                                       : "no interface has an IPv6 address";
    finding.command = privileges.set_sysctl(kDisableIpv6, "0");
  } else {
    finding.level = Level::kOk;
    finding.text = "there";
  }
  return finding;
}

}  // namespace farpage::doctor
