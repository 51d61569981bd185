#include "cli/farpage/fleet/fleet_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "base/clock.h"
#include "etcd/drain.h"

namespace farpage {
namespace {

constexpr uint64_t kCallNs = 5 * kSecond;
constexpr size_t kAskedAtOnce = 32;

MemberLook look_at(const Member* member, const etcd::NodeRecord* record) {
  MemberLook look;
  look.is_member = member != nullptr;
  if (member != nullptr) {
    look.node = member->node;
    look.is_leaving = member->leaving;
    look.incarnation = member->incarnation;
  }
  if (record != nullptr) {
    look.node = node_id(record->name);
    look.name = record->name;
    look.address = record->address;
  }
  return look;
}

// Of each, in their order. A silent node takes one of kAskedAtOnce threads.
std::vector<Result<StatusReply>> ask_all(const std::vector<etcd::NodeRecord>& nodes,
                                         const ConnectOptions& options,
                                         const Interrupts& interrupts) {
  std::vector<Result<StatusReply>> replies(nodes.size());
  std::atomic<size_t> next = 0;
  const auto ask = [&] {
    for (size_t i = next++; i < nodes.size(); i = next++) {
      replies[i] = ask_member(nodes[i], options, interrupts);
    }
  };
  std::vector<std::jthread> threads;
  while (threads.size() < std::min(kAskedAtOnce, nodes.size())) threads.emplace_back(ask);
  threads.clear();  // waits for them
  return replies;
}

}  // namespace

Result<StatusReply> ask_member(const etcd::NodeRecord& node, const ConnectOptions& options,
                               const Interrupts& interrupts) {
  return ask_status(node.address, options.credentials, options.client.connect_ms, interrupts)
      .and_then([](StatusReply status) -> Result<StatusReply> {
        if (status.tenants.size() <= 1) return status;
        return fail(Code::kInvalid,
                    "it reports all its tenants at once: name the token of the tenant whose fleet "
                    "is meant");
      })
      .map_error([&](Error error) {
        error.message = fmt::format("node '{}': {}", node.name, error.message);
        return error;
      });
}

const char* MemberLook::state() const {
  if (!trouble.empty()) return "silent";
  if (is_leaving) return "leaving";
  if (!is_member || !is_current) return "joining";
  return to_fill > 0 ? "filling" : "serving";
}

const MemberLook* FleetLook::find(const std::string& name) const {
  const auto found = std::ranges::find(members, name, &MemberLook::name);
  return found == members.end() ? nullptr : &*found;
}

uint64_t FleetLook::to_fill() const {
  uint64_t sum = 0;
  for (const MemberLook& member : members) sum += member.to_fill;
  return sum;
}

Result<FleetLook> look_at_fleet(etcd::Client& client, const ConnectOptions& options,
                                const Interrupts& interrupts) {
  const auto fleet = etcd::read_fleet(client, boottime_clock().now_ns() + kCallNs);
  if (!fleet) return tl::unexpected(fleet.error());
  const Epoch& epoch = fleet->registered.epoch;
  FleetLook look{.epoch = epoch.number, .replicas = epoch.replicas};
  const std::vector<Result<StatusReply>> replies = ask_all(fleet->nodes, options, interrupts);
  for (size_t i = 0; i < replies.size(); ++i) {
    const etcd::NodeRecord& node = fleet->nodes[i];
    const Result<StatusReply>& status = replies[i];
    MemberLook& member = look.members.emplace_back(look_at(epoch.find(node_id(node.name)), &node));
    // Failures that no wait mends.
    const Code code = status ? Code::kOk : status.error().code;
    if (code == Code::kAborted || code == Code::kInvalid) return tl::unexpected(status.error());
    if (!status) {
      member.trouble = status.error().message;
      continue;
    }
    member.is_current = status->incarnation == member.incarnation && status->epoch >= epoch.number;
    member.pages = status->slots_live;
    member.to_fill = status->fleet.to_fill;
    member.filled = status->fleet.filled;
  }
  for (const Member& member : epoch.members) {
    if (fleet->find(member.node) != nullptr) continue;
    look.members.push_back(look_at(&member, nullptr));
    look.members.back().trouble = fmt::format("no process of node {:016x} is in etcd", member.node);
  }
  if (look.members.empty()) {
    return fail(Code::kNotFound,
                fmt::format("no node of the fleet is in etcd below {}: start one, or name another "
                            "fleet with etcd.fleet",
                            client.prefix()));
  }
  std::ranges::sort(look.members, {}, &MemberLook::name);
  look.at_ns = boottime_clock().now_ns();
  return look;
}

double filled_per_second(const FleetLook& before, const FleetLook& now) {
  uint64_t filled = 0;
  for (const MemberLook& member : now.members) {
    const MemberLook* was = before.find(member.name);
    const bool is_same = was != nullptr && was->incarnation == member.incarnation;
    if (is_same && member.filled > was->filled) filled += member.filled - was->filled;
  }
  const double seconds = static_cast<double>(now.at_ns - before.at_ns) * 1e-9;
  return seconds > 0 ? static_cast<double>(filled) / seconds : 0;
}

uint64_t seconds_left(uint64_t to_fill, double per_second) {
  if (to_fill == 0 || per_second <= 0) return 0;
  return static_cast<uint64_t>(std::ceil(static_cast<double>(to_fill) / per_second));
}

}  // namespace farpage
