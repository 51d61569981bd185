#include "chaos/processes/fleet.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/temp_dir.h"

namespace farpage::processes {
namespace {

// A fleet of one, whose node and etcd are programs that only wait, and hear of no SIGTERM but by
// dying of it.
class FleetTest : public testing::Test {
 protected:
  FleetTest() {
    for (const char* name : {"etcd", "node"}) {
      const std::string path = dir_ / name;
      std::ofstream(path) << "#!/bin/sh\necho $$\nexec sleep 1000\n";
      EXPECT_EQ(::chmod(path.c_str(), 0700), 0);
    }
    const char* before = std::getenv("PATH");
    path_ = before != nullptr ? before : "";
    ::setenv("PATH", ((dir_ / "") + ":" + path_).c_str(), 1);
    FleetOptions options;
    options.has_network = false;
    options.nodes = 1;
    options.folder = dir_ / "";
    options.program = dir_ / "node";
    fleet_ = Fleet::start(options).value();
  }
  ~FleetTest() override { ::setenv("PATH", path_.c_str(), 1); }

  // The node's, once it waits.
  pid_t node() {
    for (std::string line;; std::this_thread::yield()) {
      std::ifstream log(dir_ / "n0.log");
      if (std::getline(log, line) && !log.eof()) return std::stoi(line);
    }
  }
  // And nobody has looked after it yet.
  void end_node(int signal) {
    const pid_t pid = node();
    ASSERT_EQ(::kill(pid, signal), 0);
    siginfo_t info;
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  }

  TempDir dir_;
  std::string path_;
  std::unique_ptr<Fleet> fleet_;
};

TEST_F(FleetTest, ACrashJustBeforeAKillIsTold) {
  for (const Kind kind : {Kind::kKilled, Kind::kStopped}) {
    SCOPED_TRACE(kKindNames[static_cast<size_t>(kind)]);
    const size_t before = fleet_->crashes().size();
    end_node(SIGQUIT);
    const Disturbance disturbance = {0, kind, 0, 0};
    ASSERT_TRUE(fleet_->begin(disturbance).has_value());
    ASSERT_TRUE(fleet_->tend().has_value());
    ASSERT_EQ(fleet_->crashes().size(), before + 1);
    EXPECT_NE(fleet_->crashes().back().find("node n0 was killed by signal 3"), std::string::npos);
    std::filesystem::resize_file(dir_ / "n0.log", 0);
    ASSERT_TRUE(fleet_->end(disturbance).has_value());
  }
}

TEST_F(FleetTest, WhatIsKilledOrStoppedHasNotCrashed) {
  for (const Kind kind : {Kind::kKilled, Kind::kStopped}) {
    SCOPED_TRACE(kKindNames[static_cast<size_t>(kind)]);
    node();
    const Disturbance disturbance = {0, kind, 0, 0};
    ASSERT_TRUE(fleet_->begin(disturbance).has_value());
    std::filesystem::resize_file(dir_ / "n0.log", 0);
    ASSERT_TRUE(fleet_->end(disturbance).has_value());
    for (struct stat log = {}; log.st_size == 0; ::stat((dir_ / "n0.log").c_str(), &log)) {
      ASSERT_TRUE(fleet_->tend().has_value());
    }
  }
  EXPECT_TRUE(fleet_->crashes().empty());
  EXPECT_EQ(fleet_->starts_again(), 0u);
}

}  // namespace
}  // namespace farpage::processes
