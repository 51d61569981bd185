#include "doctor/examine.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "doctor/backends/backend_shm.h"
#include "doctor/backends/backend_tcp.h"
#include "doctor/backends/backend_verbs.h"
#include "tests/doctor/made_up_host.h"

namespace farpage::doctor {
namespace {

std::vector<Finding> examine_listening(const std::string& address, const HostFiles& files) {
  Wanted wanted = some_wanted();
  wanted.asked = BackendSet::every();
  wanted.listen = *parse_address(address);
  return examine(wanted, files);
}

// Those of the table's first column, in backticks.
std::set<std::string> documented_checks() {
  std::ifstream file(FARPAGE_DOCTOR_DOC);
  std::set<std::string> checks;
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("| `")) continue;
    checks.insert(line.substr(3, line.find('`', 3) - 3));
  }
  return checks;
}

TEST(Doctor, EveryCheckStandsInItsDocument) {
  std::set<std::string> checks;
  for (const char* address : {"tcp://127.0.0.1:0", "/tmp/farpage-doctor-test.sock"}) {
    for (const Finding& finding : examine_listening(address, HostFiles())) {
      checks.insert(finding.check);
    }
  }
  EXPECT_EQ(documented_checks(), checks);
}

TEST(Doctor, WhatIsWrongComesWithACommand) {
  MadeUpHost poor;
  poor.put("/proc/meminfo", "MemAvailable: 1000 kB\n")
      .put("/proc/cpuinfo", "flags : fpu\n")
      .put("/proc/sys/net/core/somaxconn", "1\n")
      .put("/proc/sys/vm/overcommit_memory", "2\n");
  size_t wrong = 0;
  for (const Finding& finding : examine_listening("/none/a.sock", poor.files())) {
    EXPECT_FALSE(finding.text.empty()) << finding.check;
    if (finding.level < Level::kWarning) continue;
    ++wrong;
    EXPECT_FALSE(finding.command.empty()) << finding.check << ": " << finding.text;
  }
  EXPECT_GE(wrong, 6u);
}

TEST(Doctor, OnlyAskedBackendsDecide) {
  std::vector<Finding> findings = {
      {"a", "needed by verbs", Level::kProblem, "", "x", {&kVerbsCheck}},
      {"a", "needed by tcp", Level::kWarning, "", "x", {&kTcpCheck, &kVerbsCheck}},
      {"a", "fine", Level::kOk, "", "", {&kVerbsCheck}}};
  std::vector<Finding> verbs = findings;
  demote(verbs, {&kVerbsCheck});
  EXPECT_TRUE(has_problem(verbs));
  demote(findings, {&kTcpCheck});
  EXPECT_FALSE(has_problem(findings));
  EXPECT_EQ(findings[0].level, Level::kNote);
  EXPECT_EQ(findings[1].level, Level::kWarning);
  EXPECT_EQ(findings[2].level, Level::kOk);
}

TEST(Doctor, AMadeUpHostIsJudgedByWhatIsAsked) {
  MadeUpHost host;
  host.put("/proc/meminfo", "MemAvailable: 9000000 kB\n");
  Wanted wanted = some_wanted();
  wanted.max_clients = 1;
  wanted.asked = {&kShmCheck};
  EXPECT_FALSE(has_problem(examine(wanted, host.files())));
  wanted.asked = {&kVerbsCheck};
  EXPECT_TRUE(has_problem(examine(wanted, host.files())));
}

TEST(Doctor, FindingsAreGroupedBySubject) {
  EXPECT_EQ(format_findings({{"memory", "available", Level::kOk, "enough"},
                             {"memory", "cgroup", Level::kProblem, "too little", "echo 1 > /x"},
                             {"cpu", "cores", Level::kNote, "one"}}),
            "memory\n"
            "  ok       available  enough\n"
            "  problem  cgroup     too little\n"
            "                        $ echo 1 > /x\n"
            "\n"
            "cpu\n"
            "  note     cores      one\n");
}

TEST(Doctor, BackendsHaveNames) {
  for (const char* name : {"shm", "tcp", "verbs", "ucx"}) {
    ASSERT_NE(find_check(name), nullptr);
    EXPECT_EQ(find_check(name)->name, name);
    EXPECT_EQ(BackendSet{find_check(name)}.names(), name);
  }
  EXPECT_EQ((BackendSet{&kTcpCheck, &kShmCheck}).names(), "shm, tcp");
  EXPECT_EQ(BackendSet::every().names(), "shm, tcp, verbs, ucx");
  EXPECT_EQ(find_check("sim"), nullptr);
}

}  // namespace
}  // namespace farpage::doctor
