#include "doctor/host/tcp_settings.h"

#include <gtest/gtest.h>

#include "doctor/backends/backend_tcp.h"
#include "tests/doctor/made_up_host.h"

namespace farpage::doctor {
namespace {

struct Case {
  const char* key;
  const char* path;
  const char* value;
  Level level;
  const char* command;
};

constexpr Case kCases[] = {
    {"net.core.somaxconn", "net/core/somaxconn", "4096", Level::kOk, ""},
    {"net.core.somaxconn", "net/core/somaxconn", "128", Level::kWarning,
     "sysctl -w net.core.somaxconn=4096"},
    {"net.core.rmem_max", "net/core/rmem_max", "4194304", Level::kOk, ""},
    {"net.core.rmem_max", "net/core/rmem_max", "212992", Level::kNote,
     "sysctl -w net.core.rmem_max=4194304"},
    {"net.core.wmem_max", "net/core/wmem_max", "212992", Level::kNote,
     "sysctl -w net.core.wmem_max=4194304"},
    {"net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem", "4096\t131072\t6291456", Level::kOk, ""},
    {"net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem", "4096\t131072\t1048576", Level::kWarning,
     "sysctl -w net.ipv4.tcp_rmem='4096 131072 4194304'"},
    {"net.ipv4.tcp_wmem", "net/ipv4/tcp_wmem", "4096 16384 4194303", Level::kWarning,
     "sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304'"},
    {"net.ipv4.tcp_moderate_rcvbuf", "net/ipv4/tcp_moderate_rcvbuf", "0", Level::kWarning,
     "sysctl -w net.ipv4.tcp_moderate_rcvbuf=1"},
    {"net.core.netdev_max_backlog", "net/core/netdev_max_backlog", "300", Level::kWarning,
     "sysctl -w net.core.netdev_max_backlog=1000"},
    {"net.core.netdev_max_backlog", "net/core/netdev_max_backlog", "1000", Level::kOk, ""},
    {"net.ipv4.tcp_mtu_probing", "net/ipv4/tcp_mtu_probing", "0", Level::kNote,
     "sysctl -w net.ipv4.tcp_mtu_probing=1"},
    {"net.ipv4.tcp_mtu_probing", "net/ipv4/tcp_mtu_probing", "1", Level::kOk, ""},
    {"net.ipv4.tcp_mtu_probing", "net/ipv4/tcp_mtu_probing", "2", Level::kOk, ""},
    {"net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem", "nonsense", Level::kNote, ""},
};

Finding named(const std::vector<Finding>& findings, const std::string& check) {
  for (const Finding& finding : findings) {
    if (finding.check == check) return finding;
  }
  ADD_FAILURE() << "no finding " << check;
  return {};
}

TEST(DoctorTcpSettings, ThresholdsOfAMadeUpHost) {
  for (const Case& each : kCases) {
    MadeUpHost host;
    host.put(std::string("/proc/sys/") + each.path, std::string(each.value) + "\n");
    const auto findings = check_tcp_sysctls(read_tcp_settings(host.files()), kRoot);
    const Finding finding = named(findings, each.key);
    EXPECT_EQ(finding.level, each.level) << each.key << ": " << finding.text;
    EXPECT_EQ(finding.command, each.command);
    EXPECT_EQ(finding.needed_by, BackendSet{&kTcpCheck});
  }
}

TEST(DoctorTcpSettings, WhatCannotBeReadIsANote) {
  for (const Finding& finding : check_tcp_sysctls({}, kRoot)) {
    EXPECT_EQ(finding.level, Level::kNote);
    EXPECT_NE(finding.text.find("not readable"), std::string::npos);
  }
}

TEST(DoctorTcpSettings, Ipv6) {
  MadeUpHost without;
  EXPECT_EQ(check_ipv6(read_tcp_settings(without.files()), kUser).level, Level::kNote);
  EXPECT_EQ(check_ipv6(read_tcp_settings(without.files()), kUser).command, "sudo modprobe ipv6");

  MadeUpHost host;
  host.put("/proc/net/if_inet6", "00000000000000000000000000000001 01 80 10 80       lo\n");
  EXPECT_EQ(check_ipv6(read_tcp_settings(host.files()), kUser).level, Level::kOk);
  host.put("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1\n");
  const Finding disabled = check_ipv6(read_tcp_settings(host.files()), kUser);
  EXPECT_EQ(disabled.level, Level::kNote);
  EXPECT_EQ(disabled.command, "sudo sysctl -w net.ipv6.conf.all.disable_ipv6=0");
}

}  // namespace
}  // namespace farpage::doctor
