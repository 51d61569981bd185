#include "doctor/host/clock_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/clock.h"

namespace farpage::doctor {
namespace {

constexpr const char* kClock = "clock";
constexpr const char* kClocksourceFolder = "/sys/devices/system/clocksource/clocksource0";
// A system call takes this long, a look without one a tenth.
constexpr uint64_t kSlowLookNs = 300;

bool is_slow(const std::string& source) {
  for (const char* slow : {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"}) {
    if (source == slow) return true;
  }
  return false;
}

// Those that hypervisors give to their guests.
bool is_paravirtual(const std::string& source) {
  return source == "kvm-clock" || source == "xen" || source.starts_with("hyperv_");
}

// The least of a few means: what else runs here only adds to them.
uint64_t measure_look_ns() {
  constexpr int kRounds = 5;
  constexpr int kLooks = 200;
  uint64_t best = UINT64_MAX;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t begin = boottime_clock().now_ns();
    uint64_t end = begin;
    for (int look = 0; look < kLooks; ++look) end = boottime_clock().now_ns();
    best = std::min(best, (end - begin) / kLooks);
  }
  return best;
}

}  // namespace

ClockFacts read_clock(const HostFiles& files) {
  ClockFacts facts;
  timespec now = {};
  facts.boottime_error = ::clock_gettime(CLOCK_BOOTTIME, &now) == 0 ? 0 : errno;
  facts.look_ns = measure_look_ns();
  facts.source = files.text(std::string(kClocksourceFolder) + "/current_clocksource").value_or("");
  facts.available =
      files.text(std::string(kClocksourceFolder) + "/available_clocksource").value_or("");
  const std::string flags = " " + files.value("/proc/cpuinfo", "flags").value_or("") + " ";
  facts.is_guest = flags.find(" hypervisor ") != std::string::npos ||
                   is_paravirtual(facts.source) || files.exists("/sys/hypervisor/type");
  return facts;
}

Finding check_boottime(const ClockFacts& facts, const Privileges& privileges) {
  Finding finding = {kClock, "CLOCK_BOOTTIME"};
  if (facts.boottime_error == 0) {
    finding.text = "works: leases and deadlines count on it, also over a suspend";
    return finding;
  }
  finding.level = Level::kProblem;
  finding.text =
      fmt::format("does not work ({}): leases and deadlines need it; take a newer kernel",
                  std::strerror(facts.boottime_error));
  finding.command = privileges.as_root("apt-get install linux-image-amd64");
  return finding;
}

Finding check_clock_source(const ClockFacts& facts, const Privileges& privileges) {
  Finding finding = {kClock, "clocksource"};
  const std::string source = facts.source.empty() ? "unknown" : facts.source;
  if (!is_slow(facts.source) && facts.look_ns < kSlowLookNs) {
    finding.text = fmt::format("{}: a look takes {} ns", source, facts.look_ns);
    return finding;
  }
  finding.level = Level::kWarning;
  finding.text = fmt::format("{} is slow: a look takes {} ns, and a fetch takes several", source,
                             facts.look_ns);
  const bool has_tsc = (" " + facts.available + " ").find(" tsc ") != std::string::npos;
  if (has_tsc && facts.source != "tsc") {
    finding.command =
        privileges.write("tsc", std::string(kClocksourceFolder) + "/current_clocksource");
  } else {
    finding.text += "; the kernel's log says why there is no better one";
    finding.command = privileges.as_root("dmesg | grep -iE 'tsc|clocksource'");
  }
  return finding;
}

Finding check_guest_clock(const ClockFacts& facts) {
  Finding finding = {kClock, "guest clock"};
  if (!facts.is_guest) {
    finding.text = "found no hypervisor that could hold this machine and its clock";
    return finding;
  }
  finding.level = Level::kNote;
  finding.text =
      "this is a virtual machine: its clock stands still while the hypervisor holds it, in a live "
      "migration for instance, and leases last longer by that. Let something set the wall clock at "
      "once afterwards: the hypervisor's guest agent, or chrony with 'makestep 0.1 -1' "
      "(docs/operations.md, Clocks)";
  return finding;
}

}  // namespace farpage::doctor
