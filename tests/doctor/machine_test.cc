#include <gtest/gtest.h>

#include <cerrno>

#include "doctor/host/clock_source.h"
#include "doctor/host/cpu.h"
#include "doctor/host/kernel_config.h"
#include "tests/doctor/made_up_host.h"

namespace farpage::doctor {
namespace {

CpuFacts cpu_of(const std::string& cpuinfo) {
  MadeUpHost host;
  host.put("/proc/cpuinfo", cpuinfo);
  return read_cpu(host.files());
}

TEST(DoctorCpu, CrcInstructions) {
  struct Case {
    const char* cpuinfo;
    Level level;
    const char* text;
  };
  for (const Case& each : {
           Case{"processor : 0\nflags\t\t: fpu sse4_2 pclmulqdq avx\n", Level::kOk, "sse4_2"},
           Case{"flags : fpu pclmulqdq\n", Level::kWarning, "lacks sse4_2 ("},
           Case{"flags : fpu sse4_2\n", Level::kWarning, "lacks pclmulqdq ("},
           Case{"flags : fpu\n", Level::kWarning, "lacks sse4_2 and pclmulqdq"},
           Case{"Features : fp asimd crc32 pmull\n", Level::kOk, "crc32"},
           Case{"Features : fp asimd\n", Level::kWarning, "lacks crc32 and pmull"},
           Case{"", Level::kNote, "does not tell"},
       }) {
    const Finding finding = check_crc_instructions(cpu_of(each.cpuinfo));
    EXPECT_EQ(finding.level, each.level) << each.cpuinfo;
    EXPECT_NE(finding.text.find(each.text), std::string::npos) << finding.text;
    EXPECT_EQ(finding.command.empty(), each.level != Level::kWarning);
  }
}

TEST(DoctorCpu, Governor) {
  struct Case {
    const char* governor;
    Level level;
  };
  for (const Case& each : {Case{"performance\n", Level::kOk}, Case{"powersave\n", Level::kWarning},
                           Case{"schedutil\n", Level::kNote}}) {
    MadeUpHost host;
    host.put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", each.governor);
    const Finding finding = check_governor(read_cpu(host.files()), kUser);
    EXPECT_EQ(finding.level, each.level) << finding.text;
    EXPECT_EQ(
        finding.command,
        each.level == Level::kOk
            ? ""
            : "sudo sh -c 'for file in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; "
              "do echo performance > "
              "\"$file\"; done'");
  }
  EXPECT_EQ(check_governor({}, kUser).level, Level::kOk);
}

TEST(DoctorCpu, CoresAndVirtualMachines) {
  CpuFacts facts;
  facts.cores = 1;
  EXPECT_EQ(check_cores(facts, kRoot).level, Level::kNote);
  facts.cores = 2;
  EXPECT_EQ(check_cores(facts, kRoot).level, Level::kOk);
  EXPECT_GE(cpu_of("").cores, 1u);
  EXPECT_NE(check_virtual_machine(cpu_of("flags : hypervisor\n")).text.find("yes"),
            std::string::npos);
  EXPECT_EQ(check_virtual_machine(cpu_of("flags : fpu\n")).text.find("yes"), std::string::npos);
}

Finding cores_of(const MadeUpHost& host, uint64_t cores) {
  CpuFacts facts = read_cpu(host.files());
  facts.cores = cores;
  return check_cores(facts, kRoot);
}

TEST(DoctorCpu, QuotasOfTheSecondVersionCountAtEveryLevel) {
  MadeUpHost host;
  host.put("/proc/self/cgroup", "0::/pods/pod/box\n")
      .put("/sys/fs/cgroup/pods/cpu.max", "200000 100000\n")
      .put("/sys/fs/cgroup/pods/pod/cpu.max", "5000 100000\n")
      .put("/sys/fs/cgroup/pods/pod/box/cpu.max", "max 100000\n");
  Finding finding = cores_of(host, 2);
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_NE(finding.text.find("no longer than 0.05 "), std::string::npos) << finding.text;
  EXPECT_EQ(finding.command, "echo max > /sys/fs/cgroup/pods/pod/cpu.max");

  host.put("/sys/fs/cgroup/pods/pod/cpu.max", "250000 50000\n");
  finding = cores_of(host, 8);
  EXPECT_EQ(finding.level, Level::kNote) << "two cores are enough for a node";
  EXPECT_EQ(finding.command, "echo max > /sys/fs/cgroup/pods/cpu.max") << "the least of all";
  EXPECT_EQ(cores_of(host, 2).level, Level::kOk) << "as much as there is";
}

TEST(DoctorCpu, QuotasOfTheFirstVersionCountAtEveryLevel) {
  MadeUpHost host;
  host.put("/proc/self/cgroup", "4:cpuset:/x\n3:cpu,cpuacct:/job/step\n")
      .put("/proc/self/mountinfo",
           "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n")
      .put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n")
      .put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n")
      .put("/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_quota_us", "-1\n")
      .put("/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_period_us", "100000\n");
  const Finding finding = cores_of(host, 4);
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_NE(finding.text.find("no longer than 1.5 "), std::string::npos) << finding.text;
  EXPECT_EQ(finding.command, "echo -1 > /sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us");
}

TEST(DoctorCpu, WhatIsNoQuotaIsNone) {
  for (const char* text : {"max 100000", "", "5000", "5000 0", "many 100000"}) {
    MadeUpHost host;
    host.put("/proc/self/cgroup", "0::/\n").put("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(cores_of(host, 2).level, Level::kOk) << text;
  }
}

TEST(DoctorClock, ASlowSourceIsAWarning) {
  constexpr const char* kWrite =
      "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource";
  constexpr const char* kLog = "dmesg | grep -iE 'tsc|clocksource'";
  struct Case {
    uint64_t look_ns;
    const char* source;
    const char* available;
    Level level;
    const char* command;
  };
  for (const Case& each : {
           Case{25, "tsc", "tsc hpet acpi_pm", Level::kOk, ""},
           Case{40, "kvm-clock", "kvm-clock tsc", Level::kOk, ""},
           Case{40, "", "", Level::kOk, ""},
           Case{1'200, "hpet", "tsc hpet acpi_pm", Level::kWarning, kWrite},
           Case{900, "acpi_pm", "hpet acpi_pm", Level::kWarning, kLog},
           Case{400, "xen", "xen tsc", Level::kWarning, kWrite},
           Case{400, "tsc", "tsc", Level::kWarning, kLog},
       }) {
    const Finding finding =
        check_clock_source({0, each.look_ns, each.source, each.available, false}, kRoot);
    EXPECT_EQ(finding.level, each.level) << finding.text;
    EXPECT_EQ(finding.command, each.command) << finding.text;
  }
}

TEST(DoctorClock, ReadsItsSource) {
  MadeUpHost host;
  host.put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")
      .put("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet \n");
  const ClockFacts facts = read_clock(host.files());
  EXPECT_EQ(facts.boottime_error, 0);
  EXPECT_GT(facts.look_ns, 0u);
  EXPECT_EQ(check_clock_source(facts, kRoot).level, Level::kWarning);
}

TEST(DoctorClock, GuestIsToldThatItsClockMayStandStill) {
  constexpr const char* kSource =
      "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  const auto level_of = [](const char* path, const char* text) {
    MadeUpHost host;
    host.put(path, text);
    const Finding finding = check_guest_clock(read_clock(host.files()));
    const bool advises = finding.text.find("set the wall clock") != std::string::npos;
    EXPECT_EQ(advises, finding.level == Level::kNote) << finding.text;
    return finding.level;
  };
  EXPECT_EQ(level_of("/proc/cpuinfo", "flags : fpu hypervisor sse4_2\n"), Level::kNote);
  EXPECT_EQ(level_of("/sys/hypervisor/type", "xen\n"), Level::kNote);
  for (const char* guest : {"kvm-clock\n", "xen\n", "hyperv_clocksource_tsc_page\n"}) {
    EXPECT_EQ(level_of(kSource, guest), Level::kNote) << guest;
  }
  EXPECT_EQ(level_of(kSource, "tsc\n"), Level::kOk);
  EXPECT_EQ(level_of("/proc/cpuinfo", "flags : fpu nohypervisor\n"), Level::kOk);
}

TEST(DoctorClock, WithoutBoottimeNothingRuns) {
  EXPECT_EQ(check_boottime({}, kUser).level, Level::kOk);
  const Finding finding = check_boottime({EINVAL, 0, "", "", false}, kUser);
  EXPECT_EQ(finding.level, Level::kProblem);
  EXPECT_EQ(finding.command, "sudo apt-get install linux-image-amd64");
}

// Gzip's output for: a comment, CONFIG_DMA_SHARED_BUFFER=y, CONFIG_RDMA_RXE=m, and
// CONFIG_PCI_P2PDMA not set.
constexpr char kPackedConfig[] =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x53\x56\x48\xce\xcf\xcd"
    "\x4d\xcd\x2b\xe1\x72\xf6\xf7\x73\xf3\x74\x8f\x77\xf1\x75\x8c\x0f"
    "\xf6\x70\x0c\x72\x75\x89\x77\x0a\x75\x73\x73\x0d\xb2\xad\x84\x49"
    "\x05\x81\xe4\x82\x22\x5c\x6d\x73\xb9\x94\x15\xa0\x62\x01\xce\x9e"
    "\xf1\x01\x46\x01\x40\x19\x85\xcc\x62\x85\xbc\xfc\x12\x85\xe2\xd4"
    "\x12\x2e\x00\x6d\x0b\x27\xc6\x56\x00\x00\x00";

TEST(DoctorKernelConfig, IsReadFromEitherPlace) {
  MadeUpHost packed;
  packed.put("/proc/config.gz", std::string(kPackedConfig, sizeof kPackedConfig - 1));
  MadeUpHost plain;
  plain.put("/proc/sys/kernel/osrelease", "6.1.0\n")
      .put("/boot/config-6.1.0",
           "CONFIG_DMA_SHARED_BUFFER=y\nCONFIG_RDMA_RXE=m\n# CONFIG_PCI_P2PDMA is not set\n");
  for (const MadeUpHost* host : {&packed, &plain}) {
    const KernelConfig config = KernelConfig::read(host->files());
    EXPECT_EQ(config.has("CONFIG_DMA_SHARED_BUFFER"), true);
    EXPECT_EQ(config.has("CONFIG_RDMA_RXE"), true);
    EXPECT_EQ(config.has("CONFIG_PCI_P2PDMA"), false);
    EXPECT_EQ(config.has("CONFIG_RDMA"), false);
  }
}

TEST(DoctorKernelConfig, BrokenOnesAreNone) {
  for (const size_t bytes : {size_t{0}, size_t{5}, sizeof kPackedConfig / 2}) {
    MadeUpHost host;
    host.put("/proc/config.gz", std::string(kPackedConfig, bytes));
    EXPECT_EQ(KernelConfig::read(host.files()).has("CONFIG_RDMA_RXE"), std::nullopt) << bytes;
  }
}

TEST(DoctorPrivileges, AreThoseOfTheProcess) {
  MadeUpHost root;
  root.put("/proc/self/status", "Name:\tx\nUid:\t1000\t0\t0\t0\nCapEff:\t0000000001004000\n");
  EXPECT_TRUE(read_privileges(root.files()).is_root);
  EXPECT_TRUE(read_privileges(root.files()).may_lock_memory);
  EXPECT_TRUE(read_privileges(root.files()).may_raise_limits);
  MadeUpHost user;
  user.put("/proc/self/status", "Uid:\t0\t1000\t0\t0\nCapEff:\tfffffffffeffbfff\n");
  EXPECT_FALSE(read_privileges(user.files()).is_root);
  EXPECT_FALSE(read_privileges(user.files()).may_lock_memory);
  EXPECT_FALSE(read_privileges(user.files()).may_raise_limits);
  EXPECT_FALSE(read_privileges(MadeUpHost().files()).is_root);
}

TEST(DoctorPrivileges, CommandsAreForThem) {
  EXPECT_EQ(kUser.as_root("a && b"), "sudo a && sudo b");
  EXPECT_EQ(kRoot.as_root("a && b"), "a && b");
  EXPECT_EQ(kUser.write("1", "/sys/a b"), "echo 1 | sudo tee '/sys/a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace farpage::doctor
