#include "cli/farpage/fleet/fleet_upgrade.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>

#include "base/clock.h"
#include "base/stderr.h"
#include "cli/client/shell_command.h"

namespace farpage {
namespace {

constexpr int kLookMs = 200;
constexpr uint64_t kTellNs = 5 * kSecond;

}  // namespace

Result<std::vector<std::string>> FleetUpgrade::run() {
  auto fleet = wait_until_whole("", 0);
  if (!fleet) return tl::unexpected(with_progress(fleet.error()));
  for (const MemberLook& member : fleet->members) names_.push_back(member.name);
  if (fleet->replicas == 1) {
    write_stderr(
        "farpage: the fleet keeps one replica of each page: the pages of a node that does not hold "
        "its memory ('farpage hold') are lost when it restarts\n");
  }
  for (const std::string& name : names_) {
    if (!fleet) break;
    const MemberLook member = *fleet->find(name);
    const auto restarted = restart(member, *fleet);
    if (!restarted) return tl::unexpected(with_progress(restarted.error()));
    fleet = wait_until_whole(name, member.incarnation);
    if (fleet) restarted_.push_back(name);
  }
  if (!fleet) return tl::unexpected(with_progress(fleet.error()));
  return restarted_;
}

Result<void> FleetUpgrade::restart(const MemberLook& member, const FleetLook& fleet) {
  write_stderr(fmt::format("farpage: restarting '{}' ({} of {})\n", member.name,
                           restarted_.size() + 1, fleet.members.size()));
  const uint64_t deadline_ns = boottime_clock().now_ns() + arguments_.within_s * kSecond;
  return run_shell(arguments_.restart,
                   {{"FARPAGE_NODE", member.name}, {"FARPAGE_ADDRESS", member.address}},
                   deadline_ns, interrupts_)
      .map_error([&](Error error) {
        error.message = fmt::format("node '{}' was not restarted: {}", member.name, error.message);
        return error;
      });
}

Result<FleetLook> FleetUpgrade::wait_until_whole(const std::string& name, uint64_t incarnation) {
  const uint64_t deadline_ns = boottime_clock().now_ns() + arguments_.within_s * kSecond;
  told_.reset();
  while (true) {
    auto fleet = look_at_fleet(client_, options_, interrupts_);
    const Code code = fleet ? Code::kOk : fleet.error().code;
    const bool is_away = code == Code::kTimeout || code == Code::kUnavailable;
    if (!fleet && !is_away) return fleet;
    const std::string waits_for =
        fleet ? missing(*fleet, name, incarnation) : fleet.error().message;
    if (waits_for.empty()) return fleet;
    if (boottime_clock().now_ns() >= deadline_ns) {
      return fail(Code::kTimeout, fmt::format("after {} s the upgrade still waits: {}",
                                              arguments_.within_s, waits_for));
    }
    if (fleet && !told_) told_ = *fleet;
    if (fleet && fleet->at_ns - told_->at_ns >= kTellNs) {
      const uint64_t left_s = seconds_left(fleet->to_fill(), filled_per_second(*told_, *fleet));
      tell(left_s > 0 ? fmt::format("{}, about {} s", waits_for, left_s) : waits_for);
      told_ = *fleet;
    }
    pollfd stop = {interrupts_.fd(), POLLIN, 0};
    ::poll(&stop, 1, kLookMs);
    if (interrupts_.interrupted()) return fail(Code::kAborted, "interrupted");
  }
}

std::string FleetUpgrade::missing(const FleetLook& fleet, const std::string& name,
                                  uint64_t incarnation) const {
  for (const std::string& each : names_) {
    const MemberLook* member = fleet.find(each);
    if (member == nullptr) return fmt::format("node '{}' has left the fleet", each);
    if (each == name && member->incarnation == incarnation) {
      return fmt::format("the next run of node '{}' is not in the fleet yet", each);
    }
  }
  const auto behind = std::ranges::find_if_not(fleet.members, &MemberLook::is_whole);
  if (behind == fleet.members.end()) return "";
  if (!behind->trouble.empty()) return behind->trouble;
  if (const uint64_t left = fleet.to_fill(); left > 0) return fmt::format("{} pages to fill", left);
  return fmt::format("node '{}' is {}", behind->name, behind->state());
}

void FleetUpgrade::tell(const std::string& what) {
  write_stderr(fmt::format("farpage: waiting: {}\n", what));
}

Error FleetUpgrade::with_progress(Error error) const {
  if (restarted_.empty()) {
    error.message += "; the upgrade has finished no node";
  } else {
    error.message += fmt::format("; the upgrade has finished {}", fmt::join(restarted_, ", "));
  }
  return error;
}

}  // namespace farpage
