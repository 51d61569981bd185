#include "doctor/host/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/units.h"

namespace farpage::doctor {
namespace {

constexpr const char* kMemory = "memory";
constexpr uint64_t kStrictOvercommit = 2;
constexpr uint64_t kMappingsOfNode = 1'024;  // it has threads and libraries

uint64_t read_kib(const HostFiles& files, const char* key) {
  const std::string text = files.value("/proc/meminfo", key).value_or("");
  uint64_t kib = 0;
  std::from_chars(text.data(), text.data() + text.size(), kib);
  return kib * kKiB;
}

// The largest pool for which this much is enough with its clients, whose part grows with the pool,
// and a tenth to spare for the rest of the host. 0: none.
uint64_t fitting_pool_mib(uint64_t left_bytes, const Wanted& wanted) {
  const uint64_t usable_bytes = left_bytes / 10 * 9;
  uint64_t fits = 0, too_large = wanted.pool_bytes / kMiB + 1;
  while (too_large - fits > 1) {
    const uint64_t mib = fits + (too_large - fits) / 2;
    const auto needed = wanted.needed_bytes(mib * kMiB);
    (!needed || *needed <= usable_bytes ? fits : too_large) = mib;
  }
  return wanted.needed_bytes(fits * kMiB) ? fits : 0;
}

std::string needs(const Wanted& wanted) {
  return fmt::format("{} pool of {} needs {}", wanted.names_pool ? "the" : "the default",
                     format_bytes(wanted.pool_bytes), format_bytes(wanted.memory_bytes));
}

// With what clients may take once it serves: a node that cannot keep that promise does not start.
std::string needs_with_clients(const Wanted& wanted) {
  if (wanted.client_bytes == 0) return needs(wanted);
  return fmt::format(
      "{}, and its clients may take {} (node.staging_budget_bytes, node.max_clients)",
      needs(wanted), format_bytes(wanted.client_bytes));
}

// A default pool may be chosen smaller.
Level lacking(const Wanted& wanted) {
  return wanted.names_pool ? Level::kProblem : Level::kWarning;
}

}  // namespace

MemoryFacts read_memory(const HostFiles& files) {
  MemoryFacts facts;
  facts.left = memory_left(files.root());
  facts.overcommit = files.number("/proc/sys/vm/overcommit_memory").value_or(0);
  const uint64_t limit = read_kib(files, "CommitLimit");
  facts.uncommitted_bytes = limit - std::min(limit, read_kib(files, "Committed_AS"));
  facts.max_map_count =
      files.number("/proc/sys/vm/max_map_count").value_or(MemoryFacts().max_map_count);
  return facts;
}

Finding check_available(const MemoryFacts& facts, const Wanted& wanted) {
  Finding finding = {kMemory, "available"};
  const uint64_t left = facts.left.system_bytes;
  if (left == UINT64_MAX) {
    finding.level = Level::kNote;
    finding.text = "/proc/meminfo does not tell how much memory is available";
    return finding;
  }
  finding.text =
      fmt::format("{} are available; {}", format_bytes(left), needs_with_clients(wanted));
  if (left < wanted.memory_bytes + wanted.client_bytes) {
    finding.level = lacking(wanted);
    const uint64_t mib = fitting_pool_mib(left, wanted);
    if (mib == 0) {
      finding.text +=
          ": no pool fits, with a tenth to spare; end what takes the memory, which the command "
          "shows";
      finding.command = "ps -eo rss,pid,comm --sort=-rss | head";
    } else {
      finding.command = fmt::format("{} --pool-bytes {}MiB", wanted.node_command, mib);
    }
  }
  return finding;
}

Finding check_cgroup(const MemoryFacts& facts, const Wanted& wanted, const Privileges& privileges) {
  Finding finding = {kMemory, "cgroup"};
  const MemoryLeft& left = facts.left;
  if (left.cgroup_bytes == UINT64_MAX) {
    finding.text = "no memory cgroup limits this process";
    return finding;
  }
  finding.text =
      fmt::format("{} leaves {} of {}; {}", left.limit_file, format_bytes(left.cgroup_bytes),
                  format_bytes(left.limit_bytes), needs_with_clients(wanted));
  const uint64_t need = wanted.memory_bytes + wanted.client_bytes;
  if (left.cgroup_bytes < need) {
    const uint64_t enough = left.limit_bytes + (need - left.cgroup_bytes);
    finding.level = lacking(wanted);
    finding.command = privileges.write(std::to_string(round_up(enough, kMiB)), left.limit_file);
  }
  return finding;
}

Finding check_overcommit(const MemoryFacts& facts, const Wanted& wanted,
                         const Privileges& privileges) {
  Finding finding = {kMemory, "overcommit"};
  finding.text = fmt::format("vm.overcommit_memory is {}", facts.overcommit);
  if (facts.overcommit != kStrictOvercommit) return finding;
  finding.text += fmt::format(": the kernel promises {} more, and no more than that; {}",
                              format_bytes(facts.uncommitted_bytes), needs(wanted));
  if (facts.uncommitted_bytes < wanted.memory_bytes) {
    finding.level = lacking(wanted);
    finding.command = privileges.set_sysctl("vm.overcommit_memory", "0");
  }
  return finding;
}

Finding check_map_count(const MemoryFacts& facts, const Wanted& wanted,
                        const Privileges& privileges) {
  Finding finding = {kMemory, "vm.max_map_count"};
  finding.needed_by = BackendSet::with(&BackendCheck::mappings_of_client);
  const BackendCheck* most =
      *std::ranges::max_element(every_check(), {}, &BackendCheck::mappings_of_client);
  const uint64_t need = wanted.max_clients * most->mappings_of_client + kMappingsOfNode;
  finding.text = fmt::format("{} mappings a process; {} clients on {} need {}", facts.max_map_count,
                             wanted.max_clients, most->name, need);
  if (facts.max_map_count < need) {
    finding.level = Level::kWarning;
    finding.command = privileges.set_sysctl("vm.max_map_count", std::to_string(need));
  }
  return finding;
}

}  // namespace farpage::doctor
