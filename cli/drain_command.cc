#include <fmt/format.h>
#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/ask_status.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/signals.h"
#include "etcd/drain.h"

namespace farpage {
namespace {

constexpr uint64_t kCallNs = 5 * kSecond;
constexpr int kLookMs = 100;
constexpr uint64_t kTellNs = 5 * kSecond;  // what is waited for

struct DrainArguments {
  ReachArguments reach;
  std::string name;
  bool evict = false;
};

// Moves what one member holds to the others, while all go on serving, and then lets it end.
class Drain {
 public:
  Drain(const ConnectOptions& options, etcd::Access access, const DrainArguments& arguments,
        const Interrupts& interrupts)
      : options_(options),
        arguments_(arguments),
        interrupts_(interrupts),
        client_(std::move(access)) {}

  Result<void> run() {
    return look()
        .and_then([this] { return etcd::begin_leaving(client_, arguments_.name, deadline()); })
        .and_then([this] { return wait_until_filled(); })
        .and_then(
            [this] { return etcd::let_go(client_, arguments_.name, epoch_revision_, deadline()); })
        .and_then([this] { return wait_until_gone(); });
  }

 private:
  static uint64_t deadline() { return boottime_clock().now_ns() + kCallNs; }

  Result<StatusReply> ask(const etcd::NodeRecord& node) const {
    return ask_status(node.address, options_.credentials, options_.client.connect_ms, interrupts_)
        .and_then([](StatusReply status) -> Result<StatusReply> {
          if (status.tenants.size() <= 1) return status;
          return fail(Code::kInvalid,
                      "it tells of all its tenants at once, and one tenant's fleet is drained "
                      "with the token of that tenant alone");
        })
        .map_error([&](Error error) {
          error.message = fmt::format("node '{}': {}", node.name, error.message);
          return error;
        });
  }

  // Whether it can be drained now. One that has begun to leave goes on.
  Result<void> look() {
    auto fleet = etcd::read_fleet(client_, deadline());
    if (!fleet) return tl::unexpected(fleet.error());
    const Epoch& epoch = fleet->registered.epoch;
    const Member* self = epoch.find(node_id(arguments_.name));
    const etcd::NodeRecord* own = fleet->find(node_id(arguments_.name));
    if (self == nullptr || own == nullptr) {
      return fail(
          Code::kNotFound,
          fmt::format("no living member of the fleet '{}' is called '{}'; one that has died "
                      "is left out by the others when its lease has ended",
                      options_.etcd.fleet, arguments_.name));
    }
    record_revision_ = own->revision;
    if (self->leaving) return {};
    uint64_t copies = 0;
    std::vector<std::pair<const etcd::NodeRecord*, StatusReply>> others;
    for (const etcd::NodeRecord& node : fleet->nodes) {
      const Member* member = epoch.find(node_id(node.name));
      if (member == nullptr || member->leaving) continue;
      auto status = ask(node);
      if (!status) return tl::unexpected(status.error());
      if (status->fleet.to_fill > 0) {
        return fail(
            Code::kUnavailable,
            fmt::format("node '{}' is still being filled, and an epoch that begins now could "
                        "cost pages: wait until 'farpage status' of all of them says 0 left",
                        node.name));
      }
      copies += status->slots_live;
      if (&node != own) others.emplace_back(&node, std::move(*status));
    }
    if (others.empty() || arguments_.evict) return {};
    const uint64_t replicas = std::min<uint64_t>(fleet->terms->replicas, others.size());
    return check_room(others, copies / epoch.replicas * replicas / others.size());
  }

  // `share`: the pages that each of the others has to hold, as placement spreads them evenly.
  Result<void> check_room(
      const std::vector<std::pair<const etcd::NodeRecord*, StatusReply>>& others,
      uint64_t share) const {
    for (const auto& [node, status] : others) {
      // A node keeps a sixteenth of its slots free.
      const uint64_t room = std::max(status.slots - status.slots / 16, status.slots_live);
      if (share <= room) continue;
      return fail(
          Code::kExhausted,
          fmt::format("without '{}', node '{}' has to hold some {} pages, and has room for {}: "
                      "start another node first, or let the others evict with --evict",
                      arguments_.name, node->name, share, room));
    }
    return {};
  }

  // Of one look at all the others; nothing: not all of them are in this epoch yet.
  Result<std::optional<uint64_t>> left_to_fill() {
    auto fleet = etcd::read_fleet(client_, deadline());
    if (!fleet) return tl::unexpected(fleet.error());
    const Epoch& epoch = fleet->registered.epoch;
    const Member* leaving = epoch.find(node_id(arguments_.name));
    if (leaving == nullptr || !leaving->leaving) {
      return fail(
          Code::kAborted,
          fmt::format("'{}' has left or come back meanwhile: look at its log, and at 'farpage "
                      "status' of the others",
                      arguments_.name));
    }
    const bool another = epoch_revision_ != 0 && epoch_revision_ != fleet->epoch_revision;
    epoch_revision_ = fleet->epoch_revision;
    if (another && epoch.replicas == 1) {
      return fail(
          Code::kAborted,
          fmt::format("another epoch has begun while '{}' was being drained, and pages that "
                      "were on no other node may be lost; the same command goes on",
                      arguments_.name));
    }
    uint64_t left = 0;
    waits_for_ = "";
    for (const Member& member : epoch.members) {
      if (member.leaving) continue;
      const etcd::NodeRecord* node = fleet->find(member.node);
      if (node == nullptr) {
        waits_for_ = fmt::format("for node {:016x}, of which nothing is heard", member.node);
        continue;
      }
      const auto status = ask(*node);
      // What no wait mends.
      const Code code = status ? Code::kOk : status.error().code;
      if (code == Code::kAborted || code == Code::kInvalid) return tl::unexpected(status.error());
      if (!status || status->epoch < epoch.number) waits_for_ = fmt::format("for '{}'", node->name);
      if (status) left += status->fleet.to_fill;
    }
    if (!waits_for_.empty()) return std::nullopt;
    waits_for_ = fmt::format("for {} pages", left);
    return left;
  }

  Result<void> wait_until_filled() {
    while (true) {
      auto left = left_to_fill();
      if (!left) return tl::unexpected(left.error());
      if (*left && **left == 0) return {};
      if (auto waited = wait(); !waited) return waited;
    }
  }

  // Its process may have been started again since.
  Result<void> wait_until_gone() {
    waits_for_ = "for its process to end, which with tenants it does once all of them are drained";
    while (true) {
      auto fleet = etcd::read_fleet(client_, deadline());
      if (!fleet) return tl::unexpected(fleet.error());
      const etcd::NodeRecord* own = fleet->find(node_id(arguments_.name));
      if (own == nullptr || own->revision != record_revision_) return {};
      if (auto waited = wait(); !waited) return waited;
    }
  }

  Result<void> wait() {
    const uint64_t now = boottime_clock().now_ns();
    if (told_ns_ == 0) told_ns_ = now;
    if (now - told_ns_ >= kTellNs) {
      told_ns_ = now;
      fmt::print(stderr, "farpage: waiting {}\n", waits_for_);
    }
    pollfd stop = {interrupts_.fd(), POLLIN, 0};
    ::poll(&stop, 1, kLookMs);
    if (!interrupts_.interrupted()) return {};
    return fail(
        Code::kAborted,
        fmt::format("interrupted: '{}' goes on leaving, and the same command goes on waiting; "
                    "if it restarts, it comes back",
                    arguments_.name));
  }

  const ConnectOptions& options_;
  const DrainArguments& arguments_;
  const Interrupts& interrupts_;
  etcd::Client client_;
  etcd::Revision record_revision_ = 0;  // of the node's record
  etcd::Revision epoch_revision_ = 0;   // of the epoch in which it leaves
  std::string waits_for_;
  uint64_t told_ns_ = 0;
};

int run_drain(const DrainArguments& arguments) {
  const Result<ConnectOptions> options = arguments.reach.load();
  if (!options) return report_error(options.error(), kExitUsage);
  if (!options->etcd.is_given()) {
    return report_error({Code::kInvalid,
                         "only a fleet whose members are in etcd is drained: say "
                         "where that is with etcd.endpoints"},
                        kExitUsage);
  }
  auto access = options->etcd.load();
  if (!access) return report_error(access.error(), kExitUsage);
  const Interrupts interrupts;
  const auto drained = Drain(*options, std::move(*access), arguments, interrupts).run();
  if (!drained) return report_error(drained.error());
  fmt::print("{} is drained: what it held is on other nodes, and it has ended\n", arguments.name);
  return kExitDone;
}

}  // namespace

void add_drain_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "drain", "Moves what a member of a fleet in etcd holds to the others, and lets it end");
  auto arguments = std::make_shared<DrainArguments>();
  command->add_option("NAME", arguments->name, "Its cluster.name")->required();
  command->add_flag("--evict", arguments->evict,
                    "Also where the others have to evict pages of their own for it");
  arguments->reach.add_tables_to(*command);
  command->callback([arguments, &exit_code] { exit_code = run_drain(*arguments); });
}

}  // namespace farpage
