#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "doctor/host/tcp_port.h"
#include "doctor/host/unix_path.h"
#include "tests/doctor/made_up_host.h"

namespace farpage::doctor {
namespace {

Wanted listening(const std::string& address) {
  Wanted wanted = some_wanted();
  const auto parsed = parse_address(address);
  EXPECT_TRUE(parsed.has_value()) << address;
  wanted.listen = *parsed;
  return wanted;
}

struct PortCase {
  const char* listen;
  TcpPortFacts facts;
  Privileges privileges;
  Level level;
  const char* command;
};

TEST(DoctorTcpPort, WhatIsWrongDecidesTheCommand) {
  const PortCase cases[] = {
      {"tcp://a:7000", {"", "10.0.0.1", 0}, kUser, Level::kOk, ""},
      {"tcp://a:7000",
       {"the name 'a' does not resolve"},
       kUser,
       Level::kProblem,
       "farpage node --listen tcp://0.0.0.0:7000"},
      {"tcp://a:7000",
       {"", "10.0.0.1", EADDRNOTAVAIL},
       kUser,
       Level::kProblem,
       "farpage node --listen tcp://0.0.0.0:7000"},
      {"tcp://[fd00::1]:7000",
       {"", "fd00::1", EADDRNOTAVAIL},
       kUser,
       Level::kProblem,
       "farpage node --listen 'tcp://[::]:7000'"},
      {"tcp://a:7000",
       {"", "10.0.0.1", EADDRINUSE, 7002},
       kUser,
       Level::kProblem,
       "farpage node --listen tcp://a:7002"},
      {"tcp://a:7000",
       {"", "10.0.0.1", EADDRINUSE, 0},
       kUser,
       Level::kProblem,
       "sudo ss -ltnp sport = :7000"},
      {"tcp://a:443",
       {"", "10.0.0.1", EACCES},
       kUser,
       Level::kProblem,
       "sudo sysctl -w net.ipv4.ip_unprivileged_port_start=443"},
      {"tcp://a:443",
       {"", "10.0.0.1", 0},
       kRoot,
       Level::kNote,
       "farpage node --listen tcp://a:1467"},
      {"tcp://a:443", {"", "10.0.0.1", 0, 0, 80}, kUser, Level::kOk, ""},
      {"tcp://a:0", {"", "10.0.0.1", 0}, kUser, Level::kOk, ""},
      {"tcp://[::1]:7000",
       {"", "::1", EAFNOSUPPORT},
       kUser,
       Level::kProblem,
       "farpage node --listen tcp://127.0.0.1:7000"},
  };
  for (const PortCase& each : cases) {
    const Finding finding = check_tcp_port(each.facts, listening(each.listen), each.privileges);
    EXPECT_EQ(finding.level, each.level) << finding.text;
    EXPECT_EQ(finding.command, each.command) << finding.text;
  }
}

TEST(DoctorTcpPort, KeepsTheConfigurationInItsCommand) {
  Wanted wanted = listening("tcp://a:7000");
  wanted.node_command = "farpage node --config node.toml";
  EXPECT_EQ(check_tcp_port({"unknown"}, wanted, kUser).command,
            "farpage node --config node.toml --listen tcp://0.0.0.0:7000");
}

TEST(DoctorTcpPort, ReadsThisHost) {
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  socklen_t bytes = sizeof address;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(server.get(), generic, bytes), 0);
  ASSERT_EQ(::listen(server.get(), 1), 0);
  ASSERT_EQ(::getsockname(server.get(), generic, &bytes), 0);
  const HostFiles files;
  const TcpPortFacts taken = read_tcp_port({"", "127.0.0.1", ntohs(address.sin_port)}, files);
  EXPECT_EQ(taken.bind_error, EADDRINUSE);
  EXPECT_NE(taken.free_port, ntohs(address.sin_port));
  EXPECT_EQ(read_tcp_port({"", "127.0.0.1", 0}, files).bind_error, 0);
  // For documentation only (RFC 5737): no host has it.
  EXPECT_EQ(read_tcp_port({"", "192.0.2.1", 7000}, files).bind_error, EADDRNOTAVAIL);
  EXPECT_FALSE(read_tcp_port({"", "no such name", 7000}, files).resolve_error.empty());
}

TEST(DoctorTcpPort, ReadsWherePrivilegedPortsEnd) {
  MadeUpHost host;
  host.put("/proc/sys/net/ipv4/ip_unprivileged_port_start", "80\n");
  EXPECT_EQ(read_tcp_port({"", "127.0.0.1", 0}, host.files()).unprivileged_start, 80u);
}

struct PathCase {
  std::string path;
  UnixPathFacts facts;
  Privileges privileges;
  Level level;
  const char* command;
};

TEST(DoctorUnixPath, WhatIsWrongDecidesTheCommand) {
  using Present = UnixPathFacts::Present;
  const PathCase cases[] = {
      {"/r/a", {"/r", true, true, true}, kUser, Level::kOk, ""},
      {"/r/a", {"/r", true, true, true, Present::kDeadSocket}, kUser, Level::kOk, ""},
      {"/r/a",
       {"/r", true, true, true, Present::kLiveSocket},
       kUser,
       Level::kProblem,
       "farpage node --listen /r/a.2"},
      {"/r/a",
       {"/r", true, true, true, Present::kOtherFile},
       kUser,
       Level::kProblem,
       "farpage node --listen /r/a.sock"},
      {"/r/a", {"/r", false, true, false}, kUser, Level::kProblem, "mkdir -p /r"},
      {"/r/a",
       {"/r", false, false, false},
       kUser,
       Level::kProblem,
       "sudo install -d -o \"$(id -u)\" /r"},
      {"/my r/a",
       {"/my r", true, false, false},
       kUser,
       Level::kProblem,
       "sudo chown \"$(id -u)\" '/my r'"},
      {std::string(108, 'x'),
       {"/", true, true, true},
       kUser,
       Level::kProblem,
       "farpage node --listen /tmp/farpage.sock"},
      {std::string(107, 'x'), {"/", true, true, true}, kUser, Level::kOk, ""},
  };
  for (const PathCase& each : cases) {
    const Finding finding = check_unix_path(each.facts, listening(each.path), each.privileges);
    EXPECT_EQ(finding.level, each.level) << finding.text;
    EXPECT_EQ(finding.command, each.command) << finding.text;
  }
}

TEST(DoctorUnixPath, ReadsThisHost) {
  using Present = UnixPathFacts::Present;
  const TempDir folder;
  EXPECT_TRUE(read_unix_path(folder / "a").is_folder);
  EXPECT_TRUE(read_unix_path(folder / "a").may_write);
  EXPECT_EQ(read_unix_path(folder / "a").present, Present::kNothing);
  const UnixPathFacts missing = read_unix_path(folder / "none/deep/a");
  EXPECT_FALSE(missing.is_folder);
  EXPECT_TRUE(missing.may_make_folder);

  const std::string path = folder / "s";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  {
    const UniqueFd server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(server.get(), 1), 0);
    EXPECT_EQ(read_unix_path(path).present, Present::kLiveSocket);
  }
  EXPECT_EQ(read_unix_path(path).present, Present::kDeadSocket);
  std::ofstream(folder / "file") << "text";
  EXPECT_EQ(read_unix_path(folder / "file").present, Present::kOtherFile);
}

}  // namespace
}  // namespace farpage::doctor
