#include <fmt/format.h>
#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/stderr.h"
#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/farpage/commands.h"
#include "cli/farpage/fleet/fleet_look.h"
#include "cli/options.h"
#include "etcd/drain.h"
#include "report/json.h"

namespace farpage {
namespace {

constexpr uint64_t kCallNs = 5 * kSecond;
constexpr int kLookMs = 100;
constexpr uint64_t kTellNs = 5 * kSecond;    // what is waited for
constexpr uint64_t kAwayNs = 120 * kSecond;  // an etcd that gives no answer

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
    return repeat([this] { return begin(); })
        .and_then([this] { return repeat([this] { return fill_and_let_go(); }); })
        .and_then([this] { return repeat([this] { return see_it_gone(); }); });
  }

 private:
  static uint64_t deadline() { return boottime_clock().now_ns() + kCallNs; }

  Result<StatusReply> ask(const etcd::NodeRecord& node) const {
    return ask_member(node, options_, interrupts_);
  }

  // True: it leaves. An etcd that is away before that is an error. Afterwards it is none: whether
  // the node leaves, the next look tells.
  Result<bool> begin() {
    waits_for_ = "for an epoch that lasts";
    auto fleet = read_again();
    if (!fleet && may_leave_) return passes(fleet.error(), silent_since_ns_);
    if (!fleet) return tl::unexpected(fleet.error());
    if (auto can_be = look(*fleet); !can_be) return tl::unexpected(can_be.error());
    auto begun = etcd::begin_leaving(client_, arguments_.name, *fleet, deadline());
    if (!begun && begun.error().code == Code::kAborted) return false;
    if (!begun) {
      may_leave_ = true;  // and only the answer is lost
      return passes(begun.error(), unwritten_since_ns_);
    }
    unwritten_since_ns_ = 0;
    leaving_.emplace(arguments_.name, *fleet);
    leaving_->begun(*begun);
    return true;
  }

  // Whether it can be drained now. One that has begun to leave goes on.
  Result<void> look(const etcd::FleetRecord& fleet) const {
    const Epoch& epoch = fleet.registered.epoch;
    const Member* self = epoch.find(node_id(arguments_.name));
    const etcd::NodeRecord* own = fleet.find(node_id(arguments_.name));
    if (self == nullptr || own == nullptr) {
      return fail(Code::kNotFound,
                  fmt::format("the fleet '{}' has no living member called '{}'; once the lease of "
                              "a dead member ends, the others leave it out",
                              options_.etcd.fleet, arguments_.name));
    }
    if (self->leaving) return {};
    uint64_t copies = 0;
    std::vector<std::pair<const etcd::NodeRecord*, StatusReply>> others;
    for (const etcd::NodeRecord& node : fleet.nodes) {
      const Member* member = epoch.find(node_id(node.name));
      if (member == nullptr || member->leaving) continue;
      auto status = ask(node);
      if (!status) return tl::unexpected(status.error());
      if (status->fleet.to_fill > 0) {
        return fail(Code::kUnavailable,
                    fmt::format("node '{}' is still being filled, and a new epoch now could lose "
                                "pages: wait until 'farpage status' shows 0 left for every node",
                                node.name));
      }
      copies += status->slots_live;
      if (&node != own) others.emplace_back(&node, std::move(*status));
    }
    if (others.empty() || arguments_.evict) return {};
    const uint64_t replicas = std::min<uint64_t>(fleet.terms->replicas, others.size());
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
      return fail(Code::kExhausted,
                  fmt::format("without '{}', node '{}' must hold about {} pages, and has room for "
                              "{}: start another node first, or let the others evict with --evict",
                              arguments_.name, node->name, share, room));
    }
    return {};
  }

  // True: the others had all that it held while it was still there, and it may end.
  Result<bool> fill_and_let_go() {
    auto fleet = read_again();
    if (!fleet) return passes(fleet.error(), silent_since_ns_);
    if (may_be_let_go_) {
      const auto over = leaving_->is_over(*fleet);
      if (over && *over) return true;
    }
    if (auto goes_on = leaving_->follow(*fleet); !goes_on) return tl::unexpected(goes_on.error());
    uint64_t left = 0;
    waits_for_ = "";
    for (const Member& member : fleet->registered.epoch.members) {
      if (member.leaving) continue;
      auto to_fill = left_at(*fleet, member);
      if (!to_fill) return tl::unexpected(to_fill.error());
      left += *to_fill;
    }
    if (waits_for_.empty() && left > 0) waits_for_ = fmt::format("for {} pages", left);
    // Last: who has nothing to fill any more, may have had no member to fill it.
    if (waits_for_.empty()) {
      auto is_there = left_at(*fleet, *fleet->registered.epoch.find(node_id(arguments_.name)));
      if (!is_there) return tl::unexpected(is_there.error());
    }
    if (!waits_for_.empty()) return false;
    waits_for_ = "for an epoch that lasts";
    auto gone = etcd::let_go(client_, *leaving_, deadline());
    if (gone) return true;
    if (gone.error().code == Code::kAborted) return false;
    may_be_let_go_ = true;  // and only the answer is lost
    return passes(gone.error(), unwritten_since_ns_);
  }

  // Pages that a member has to fill, if this run of it is in this epoch.
  Result<uint64_t> left_at(const etcd::FleetRecord& fleet, const Member& member) {
    const etcd::NodeRecord* node = fleet.find(member.node);
    if (node == nullptr) {
      waits_for_ = fmt::format("for node {:016x}, which is silent", member.node);
      return 0;
    }
    const auto status = ask(*node);
    // Failures that no wait mends.
    const Code code = status ? Code::kOk : status.error().code;
    if (code == Code::kAborted || code == Code::kInvalid) return tl::unexpected(status.error());
    const bool is_in = status && status->incarnation == member.incarnation &&
                       status->epoch >= fleet.registered.epoch.number;
    if (!is_in) waits_for_ = fmt::format("for '{}'", node->name);
    return status ? status->fleet.to_fill : 0;
  }

  Result<bool> see_it_gone() {
    waits_for_ = "for its process to end (with tenants: once all of them are drained)";
    auto fleet = read_again();
    if (!fleet) return passes(fleet.error(), silent_since_ns_);
    return leaving_->is_over(*fleet);
  }

  Result<etcd::FleetRecord> read_again() {
    auto fleet = etcd::read_fleet(client_, deadline());
    if (fleet) silent_since_ns_ = 0;
    return fleet;
  }

  // The node leaves all the same while etcd gives no answer, as to a process that was stopped
  // meanwhile. `since_ns`: when it began, and 0 before. A full etcd answers reads and no writes.
  Result<bool> passes(const Error& error, uint64_t& since_ns) {
    const bool is_away = error.code == Code::kTimeout || error.code == Code::kUnavailable;
    const uint64_t now = boottime_clock().now_ns();
    if (since_ns == 0) since_ns = now;
    if (!is_away || now - since_ns >= kAwayNs) return tl::unexpected(error);
    waits_for_ = fmt::format("for {}", error.message);
    return false;
  }

  // Until it is true.
  template <typename Step>
  Result<void> repeat(const Step& step) {
    while (true) {
      auto done = step();
      if (!done) return tl::unexpected(done.error());
      if (*done) return {};
      if (auto waited = wait(); !waited) return waited;
    }
  }

  Result<void> wait() {
    const uint64_t now = boottime_clock().now_ns();
    if (told_ns_ == 0) told_ns_ = now;
    if (now - told_ns_ >= kTellNs) {
      told_ns_ = now;
      write_stderr(fmt::format("farpage: waiting {}\n", waits_for_));
    }
    pollfd stop = {interrupts_.fd(), POLLIN, 0};
    ::poll(&stop, 1, kLookMs);
    if (!interrupts_.interrupted()) return {};
    if (!leaving_ && !may_leave_) return fail(Code::kAborted, "interrupted");
    return fail(Code::kAborted,
                fmt::format("interrupted: '{}' keeps leaving, and running this command again keeps "
                            "waiting for it; if the node restarts, it comes back",
                            arguments_.name));
  }

  const ConnectOptions& options_;
  const DrainArguments& arguments_;
  const Interrupts& interrupts_;
  etcd::Client client_;
  std::optional<etcd::Leaving> leaving_;  // since that has begun
  bool may_leave_ = false;                // that has been asked of etcd
  bool may_be_let_go_ = false;            // so has that
  std::string waits_for_;
  uint64_t silent_since_ns_ = 0;     // etcd has answered no read; 0: it has
  uint64_t unwritten_since_ns_ = 0;  // ... and no write
  uint64_t told_ns_ = 0;
};

int run_drain(const DrainArguments& arguments) {
  const Result<ConnectOptions> options = arguments.reach.load();
  if (!options) return report_error(options.error(), kExitUsage);
  if (!options->etcd.is_given()) {
    return report_error({Code::kInvalid,
                         "only members of a fleet in etcd can be drained: name the etcd with --set "
                         "etcd.endpoints=URL, or in the file of --config"},
                        kExitUsage);
  }
  auto access = options->etcd.load();
  if (!access) return report_error(access.error(), kExitUsage);
  const Interrupts interrupts;
  const auto drained = Drain(*options, std::move(*access), arguments, interrupts).run();
  if (!drained) return report_error(drained.error());
  // The drain is the result, whether or not its message can be written.
  const auto told =
      write_text("-", fmt::format("{} is drained: its pages are on other nodes, and it has ended\n",
                                  arguments.name));
  if (!told) (void)report_error(told.error());
  return kExitDone;
}

}  // namespace

void add_drain_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "drain", "Moves the pages of a fleet's member (in etcd) to the others, and lets it end");
  auto arguments = std::make_shared<DrainArguments>();
  command->add_option("NAME", arguments->name, "cluster.name of the member")->required();
  command->add_flag("--evict", arguments->evict,
                    "Even if the other members must evict pages of their own");
  arguments->reach.add_tables_to(*command);
  command->callback([arguments, &exit_code] { exit_code = run_drain(*arguments); });
}

}  // namespace farpage
