#include "doctor/limits.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "doctor/backends/backend_finding.h"
#include "doctor/backends/backend_verbs.h"

namespace farpage::doctor {
namespace {

constexpr const char* kLimits = "limits";

constexpr uint64_t kDescriptorsOfNode = 64;

// On that of the asked backends which takes the most.
DescriptorsOfClient descriptors_of_client(const BackendSet& asked, size_t rdma_devices) {
  DescriptorsOfClient most;
  for (const BackendCheck* backend : every_check()) {
    if (!asked.has(*backend)) continue;
    DescriptorsOfClient each = backend->descriptors_of_client(rdma_devices);
    if (each.count > most.count) most = std::move(each);
  }
  return most;
}

// Root without CAP_SYS_RESOURCE.
constexpr const char* kContainer = "; raise the limit where this container is started";

uint64_t bytes_or_none(rlim_t limit) {
  return limit == RLIM_INFINITY ? UINT64_MAX : static_cast<uint64_t>(limit);
}

uint64_t product(uint64_t a, uint64_t b) {
  return b > 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

std::string limit_text(uint64_t bytes) {
  return bytes == UINT64_MAX ? "unlimited" : format_bytes(bytes);
}

}  // namespace

LimitFacts read_limit(int resource) {
  rlimit limit = {};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  return {bytes_or_none(limit.rlim_cur), bytes_or_none(limit.rlim_max)};
}

Finding check_memlock(const LimitFacts& facts, size_t rdma_devices, const Wanted& wanted,
                      const Privileges& privileges) {
  Finding finding = {kLimits, "memlock"};
  finding.needed_by = BackendSet::with(&BackendCheck::locks_memory);
  const std::string limit = limit_text(facts.soft);
  const uint64_t times = used_devices(rdma_devices);
  const uint64_t need = product(wanted.memory_bytes, times);
  if (facts.soft >= need) {
    finding.text = fmt::format("{} may be locked: enough to register the pool for RDMA", limit);
  } else if (privileges.may_lock_memory) {
    finding.text = fmt::format("{} may be locked, and CAP_IPC_LOCK lifts that limit", limit);
  } else {
    finding.level = Level::kProblem;
    finding.text = fmt::format("{} may be locked, and RDMA registers the whole pool: {}", limit,
                               format_bytes(wanted.memory_bytes));
    if (times > 1) {
      finding.text += fmt::format(
          " with each of {} devices, which counts as {}; rdma.devices may "
          "name fewer",
          times, format_bytes(need));
    }
    if (facts.hard == UINT64_MAX || privileges.may_raise_limits) {
      finding.command = "ulimit -l unlimited";
    } else if (!privileges.is_root) {
      finding.command = "sudo prlimit --pid $$ --memlock=unlimited:unlimited";
    } else {
      finding.text += kContainer;
      finding.command = command_for_another(wanted);
    }
  }
  finding.text += fmt::format(
      "; each client that puts locks its staging too (client.staging_bytes, {} by default): {} for "
      "{} clients",
      format_bytes(wanted.staging_bytes),
      format_bytes(product(product(wanted.staging_bytes, times), wanted.max_clients)),
      wanted.max_clients);
  return finding;
}

Finding check_descriptors(const LimitFacts& facts, size_t rdma_devices, const Wanted& wanted,
                          const Privileges& privileges) {
  Finding finding = {kLimits, "descriptors"};
  const auto [each, over] = descriptors_of_client(wanted.asked, rdma_devices);
  const uint64_t need = wanted.max_clients * each + kDescriptorsOfNode;
  finding.text = fmt::format(
      "{} descriptors (hard limit {}); {} clients of 2 lanes need {}: {} "
      "each on {}, and {} for the node",
      facts.soft, facts.hard, wanted.max_clients, need, each, over, kDescriptorsOfNode);
  if (facts.soft >= need) return finding;
  const uint64_t room = facts.soft < kDescriptorsOfNode ? 0 : facts.soft - kDescriptorsOfNode;
  finding.level = room < each ? Level::kProblem : Level::kWarning;
  finding.text +=
      room < each ? "; not one client fits" : fmt::format("; {} clients fit", room / each);
  if (facts.hard >= need || privileges.may_raise_limits) {
    finding.command = fmt::format("ulimit -n {}", need);
  } else if (!privileges.is_root) {
    finding.command = fmt::format("sudo prlimit --pid $$ --nofile={0}:{0}", need);
  } else {
    finding.text += kContainer;
    finding.command = fmt::format("{} --set node.max_clients={}", wanted.node_command,
                                  std::max<uint64_t>(room / each, 1));
  }
  return finding;
}

}  // namespace farpage::doctor
