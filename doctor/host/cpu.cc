#include "doctor/host/cpu.h"

#include <fmt/format.h>
#include <sched.h>

#include <sstream>
#include <thread>
#include <utility>

#include "base/memory/cgroups.h"

namespace farpage::doctor {
namespace {

constexpr const char* kCpu = "cpu";
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

// "5000 100000" or "max 100000": microseconds of a period that is as long.
CpuQuota quota_of_second_version(const std::string& file, const std::string& text) {
  std::istringstream words(text);
  double quota_us = 0;
  double period_us = 0;
  if (!(words >> quota_us >> period_us) || period_us <= 0) return {};
  return {quota_us / period_us, period_us / 1e3, file, "max"};
}

CpuQuota quota_of(const HostFiles& files, const Cgroup& group) {
  if (group.version == CgroupVersion::kSecond) {
    const std::string file = group.folder + "cpu.max";
    return quota_of_second_version(file, files.text(file).value_or(""));
  }
  const std::string file = group.folder + "cpu.cfs_quota_us";
  const auto quota_us = files.number(file);  // -1, which is no such number: none
  const auto period_us = files.number(group.folder + "cpu.cfs_period_us");
  if (!quota_us || period_us.value_or(0) == 0) return {};
  return {static_cast<double>(*quota_us) / static_cast<double>(*period_us),
          static_cast<double>(*period_us) / 1e3, file, "-1"};
}

CpuQuota least_quota(const HostFiles& files) {
  CpuQuota least;
  for (const Cgroup& group : cgroups_of("cpu", files.root())) {
    CpuQuota quota = quota_of(files, group);
    if (quota.cores > 0 && (least.cores == 0 || quota.cores < least.cores)) {
      least = std::move(quota);
    }
  }
  return least;
}

}  // namespace

CpuFacts read_cpu(const HostFiles& files) {
  CpuFacts facts;
  facts.cores = usable_cores();
  facts.quota = least_quota(files);
  auto flags = files.value(kInfo, "flags");
  facts.is_arm = !flags.has_value() && files.value(kInfo, "Features").has_value();
  if (!flags) flags = files.value(kInfo, "Features");
  std::istringstream words(flags.value_or(""));
  for (std::string flag; words >> flag;) facts.flags.insert(flag);
  facts.governor = files.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").value_or("");
  return facts;
}

Finding check_cores(const CpuFacts& facts, const Privileges& privileges) {
  Finding finding = {kCpu, "cores"};
  finding.text = fmt::format("{} may be used", facts.cores);
  const CpuQuota& quota = facts.quota;
  if (quota.cores > 0 && quota.cores < static_cast<double>(facts.cores)) {
    finding.text += fmt::format(
        ", but together for no longer than {:.4g} could run: {} is a quota. Once it is used up, "
        "every thread stops until the next {:.3g} ms begin, and fetches with them",
        quota.cores, quota.file, quota.period_ms);
    finding.level = quota.cores < 2 ? Level::kWarning : Level::kNote;
    finding.command = privileges.write(quota.unlimited, quota.file);
  } else if (facts.cores < 2) {
    finding.level = Level::kNote;
    finding.text += "; a node and its clients take turns on it, and fetches wait for them";
  }
  return finding;
}

Finding check_crc_instructions(const CpuFacts& facts) {
  Finding finding = {kCpu, "crc32c"};
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
        "host's CPU). Measure the cost",
        missing);
    finding.command = "farpage bench fetch --seconds 2";
  }
  return finding;
}

Finding check_governor(const CpuFacts& facts, const Privileges& privileges) {
  Finding finding = {kCpu, "governor"};
  if (facts.governor.empty()) {
    finding.text = "this system does not control the CPU's frequency";
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
  return {kCpu, "virtual machine", Level::kOk,
          is_virtual ? "yes: other load on its host can delay a fetch" : "none that shows", ""};
}

}  // namespace farpage::doctor
