#include "chaos/processes/network.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "chaos/processes/child.h"
#include "tests/support/needs_root.h"
#include "tests/support/temp_dir.h"

namespace farpage::processes {
namespace {

// In a process of its own, for it leaves the network that it is in.
int attempt(size_t hosts, const std::string& log,
            int (*use)(Network& network, const std::string& log)) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    auto network = Network::make(hosts, log);
    if (!network) {
      std::ofstream(log) << network.error().message;
      ::_exit(77);
    }
    ::_exit(use(**network, log));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

// Whether the first host has a carrier; and whether the bridge has its cable.
bool says(const Network& network, const std::string& log, const std::string& words, int host,
          const std::string& wanted) {
  const std::string out = log + ".out";
  std::ofstream(out).close();
  std::string command = find_program("ip") + " " + words;
  (void)run_to_end({"/bin/sh", {"sh", "-c", command}, out, host < 0 ? -1 : network.host(0)});
  std::ifstream file(out);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return text.find(wanted) != std::string::npos;
}

int cut(Network& network, const std::string& log) {
  const auto carrier = [&] { return says(network, log, "link show cable", 0, "LOWER_UP"); };
  const auto carried = [&] { return says(network, log, "link show cable0", -1, "master bridge"); };
  if (!carrier() || !carried()) return 1;
  if (!network.set_link(0, false) || carrier()) return 2;
  if (!network.set_link(0, true) || !carrier()) return 3;
  if (!network.set_silent(0, true) || !carrier() || carried()) return 4;
  if (!network.set_silent(0, false) || !carrier() || !carried()) return 5;
  return 0;
}

int know_each_other(Network& network, const std::string& log) {
  const auto known = [&] {
    return says(network, log, "neigh show " + Network::address(24) + " nud permanent", 0, "02:00:");
  };
  if (!known()) return 1;
  return network.set_link(0, false) && network.set_link(0, true) && known() ? 0 : 2;
}

struct Outcome {
  int code = 0;  // 77: this machine lets nobody make a network
  std::string said;
};

Outcome outcome_of(size_t hosts, int (*use)(Network& network, const std::string& log)) {
  const TempDir dir;
  const std::string log = dir / "log";
  const int code = attempt(hosts, log, use);
  std::ifstream file(log);
  return {code, std::string((std::istreambuf_iterator<char>(file)), {})};
}

TEST(ProcessesNetwork, CutCableIsSeenByItsHostAndASilentOneIsNot) {
  if (const char* why = why_no_root()) GTEST_SKIP() << why;
  const Outcome outcome = outcome_of(2, cut);
  if (outcome.code == 77) GTEST_SKIP() << "hardware: " << outcome.said;
  EXPECT_EQ(outcome.code, 0) << outcome.said;
}

TEST(ProcessesNetwork, ManyHostsAreToldOfEachOther) {
  if (const char* why = why_no_root()) GTEST_SKIP() << why;
  const Outcome outcome = outcome_of(25, know_each_other);
  if (outcome.code == 77) GTEST_SKIP() << "hardware: " << outcome.said;
  EXPECT_EQ(outcome.code, 0) << outcome.said;
}

}  // namespace
}  // namespace farpage::processes
