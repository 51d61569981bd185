#include "doctor/host/cpu.h"

#include <fmt/format.h>
#include <sched.h>

#include <sstream>
#include <thread>

namespace farpage::doctor {
namespace {

constexpr const char* kSubject = "cpu";
constexpr const char* kInfo = "/proc/cpuinfo";
constexpr const char* kGovernors = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";

uint64_t usable_cores() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (::sched_getaffinity(0, sizeof usable, &usable) == 0) {
    return static_cast<uint64_t>(CPU_COUNT(&usable));
  }
  return std::thread::hardware_concurrency();
}

}  // namespace

CpuFacts read_cpu(const HostFiles& files) {
  CpuFacts facts;
  facts.cores = usable_cores();
  auto flags = files.value(kInfo, "flags");
  facts.is_arm = !flags.has_value() && files.value(kInfo, "Features").has_value();
  if (!flags) flags = files.value(kInfo, "Features");
  std::istringstream words(flags.value_or(""));
  for (std::string flag; words >> flag;) facts.flags.insert(flag);
  facts.governor = files.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").value_or("");
  return facts;
}

Finding check_cores(const CpuFacts& facts) {
  Finding finding = {kSubject, "cores"};
  finding.text = fmt::format("{} may be used", facts.cores);
  if (facts.cores < 2) {
    finding.level = Level::kNote;
    finding.text += "; a node and its clients take turns on it, and fetches wait for them";
  }
  return finding;
}

Finding check_crc_instructions(const CpuFacts& facts) {
  Finding finding = {kSubject, "crc32c"};
  const std::string crc = facts.is_arm ? "crc32" : "sse4_2";
  const std::string multiply = facts.is_arm ? "pmull" : "pclmulqdq";
  std::string missing;
  for (const std::string& flag : {crc, multiply}) {
    if (facts.flags.contains(flag)) continue;
    missing += (missing.empty() ? "" : " and ") + flag;
  }
  if (facts.flags.empty()) {
    finding.level = Level::kNote;
    finding.text = "/proc/cpuinfo does not tell what this CPU can do";
  } else if (missing.empty()) {
    finding.text = fmt::format("fast: the CPU has {} and {}", crc, multiply);
  } else {
    finding.level = Level::kWarning;
    finding.text = fmt::format(
        "slow: the CPU lacks {} (in a virtual machine: let it see the "
        "host's CPU). See what it costs",
        missing);
    finding.command = "farpage bench fetch --seconds 2";
  }
  return finding;
}

Finding check_governor(const CpuFacts& facts, const Privileges& privileges) {
  Finding finding = {kSubject, "governor"};
  if (facts.governor.empty()) {
    finding.text = "this system leaves the CPU's frequency to others";
  } else if (facts.governor == "performance") {
    finding.text = "performance";
  } else {
    finding.level = facts.governor == "powersave" ? Level::kWarning : Level::kNote;
    finding.text = fmt::format("'{}' lets cores slow down between fetches", facts.governor);
    finding.command = privileges.as_root(
        fmt::format("sh -c 'for file in {}; do echo performance > \"$file\"; done'", kGovernors));
  }
  return finding;
}

Finding check_virtual_machine(const CpuFacts& facts) {
  const bool is_virtual = facts.flags.contains("hypervisor");
  return {kSubject, "virtual machine", Level::kOk,
          is_virtual ? "yes: what else runs on its host can delay a fetch" : "none that shows", ""};
}

}  // namespace farpage::doctor
