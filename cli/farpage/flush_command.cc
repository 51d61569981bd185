#include <fmt/format.h>
#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/client/node_conversation.h"
#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/farpage/commands.h"
#include "cli/options.h"
#include "etcd/drain.h"
#include "integrity/facts.h"
#include "report/json.h"

namespace farpage {
namespace {

constexpr uint64_t kEtcdNs = 5 * kSecond;
constexpr uint64_t kPinnedNs = 60 * kSecond;  // a replica has them by then, or its put has failed
constexpr int kPauseMs = 50;
constexpr size_t kTagDigits = 8;

struct FlushArguments {
  ReachArguments reach;
  std::string name_space;
};

void pause(const Interrupts& interrupts) {
  pollfd stop = {interrupts.fd(), POLLIN, 0};
  ::poll(&stop, 1, kPauseMs);
}

struct NamedAddress {
  std::string name;  // of a member; empty: a node that serves alone
  std::string address;
};

Result<std::vector<NamedAddress>> nodes_of(const ConnectOptions& options) {
  std::vector<NamedAddress> nodes;
  if (options.cluster.is_given()) {
    auto listed = options.cluster.list();
    if (!listed) return tl::unexpected(listed.error());
    for (const NamedNode& node : *listed)
      nodes.push_back({node.name, format_address(node.address)});
    return nodes;
  }
  if (!options.etcd.is_given()) return std::vector<NamedAddress>{{"", options.node}};
  auto access = options.etcd.load();
  if (!access) return tl::unexpected(access.error());
  etcd::Client client(std::move(*access));
  const auto fleet = etcd::read_fleet(client, boottime_clock().now_ns() + kEtcdNs);
  if (!fleet) return tl::unexpected(fleet.error());
  for (const etcd::NodeRecord& node : fleet->nodes) nodes.push_back({node.name, node.address});
  return nodes;
}

// What one node has evicted, also where it failed later.
struct Flushed {
  uint64_t evicted = 0;
  std::optional<Error> error = {};
};

// A node with another namespace of the same tag: 32 digits name one alone.
Result<void> check_digits(NodeConversation& node, const std::string& digits) {
  auto status = node.ask_for<StatusReply>(StatusRequest{});
  if (!status) return tl::unexpected(status.error());
  for (const NameSpaceStatus& one : status->name_spaces) {
    const bool is_other = one.name_space.size() == digits.size() && one.name_space != digits;
    if (is_other && one.name_space.substr(0, kTagDigits) == digits.substr(0, kTagDigits)) {
      return fail(Code::kInvalid,
                  fmt::format("it has pages of {}, which has the same tag, and would evict them: "
                              "give its first {} digits if that is meant",
                              one.name_space, kTagDigits));
    }
  }
  return {};
}

Flushed flush(const NamedAddress& at, const std::string& digits, uint32_t tag,
              const ConnectOptions& options, const Interrupts& interrupts) {
  auto node = NodeConversation::open(at.address, options.credentials, options.client.connect_ms,
                                     interrupts);
  if (!node) return {0, node.error()};
  if (auto named = check_digits(**node, digits); !named) return {0, named.error()};
  Flushed flushed;
  uint64_t cursor = 0;
  const uint64_t give_up_ns = boottime_clock().now_ns() + kPinnedNs;
  do {
    auto reply = (*node)->ask_for<FlushReply>(FlushRequest{tag, cursor});
    if (!reply) return {flushed.evicted, reply.error()};
    flushed.evicted += reply->evicted;
    const bool is_again = reply->next != 0 && reply->next <= std::max<uint64_t>(cursor, 1);
    if (is_again && boottime_clock().now_ns() >= give_up_ns) {
      return {flushed.evicted, Error{Code::kTimeout,
                                     "pages that its replicas are about to read are still there: "
                                     "flush again"}};
    }
    if (is_again) pause(interrupts);
    if (interrupts.interrupted()) return {flushed.evicted, Error{Code::kAborted, "interrupted"}};
    cursor = reply->next;
  } while (cursor != 0);
  return flushed;
}

// A member that is filled meanwhile may get a page from one whose turn comes later: so all are
// flushed again until none has evicted any more.
int flush_all(const std::vector<NamedAddress>& nodes, const std::string& digits, uint32_t tag,
              const ConnectOptions& options, const Interrupts& interrupts) {
  constexpr int kMostRounds = 8;
  std::set<std::string> failed;  // addresses
  uint64_t evicted = 0;
  uint64_t evicted_now = 1;
  for (int round = 0; round < kMostRounds && evicted_now > 0; ++round) {
    evicted_now = 0;
    for (const NamedAddress& node : nodes) {
      if (failed.contains(node.address)) continue;
      const Flushed flushed = flush(node, digits, tag, options, interrupts);
      evicted_now += flushed.evicted;
      if (interrupts.interrupted()) return report_error({Code::kAborted, "interrupted"});
      if (!flushed.error) continue;
      failed.insert(node.address);
      const std::string who = node.name.empty() ? "" : fmt::format("node '{}': ", node.name);
      (void)report_error({flushed.error->code, who + flushed.error->message});
    }
    evicted += evicted_now;
  }
  if (failed.size() == nodes.size() && evicted == 0) return kExitFailed;
  const auto told = write_text(
      "-", fmt::format("{} copies of pages of the namespace {} are evicted from {} of {} nodes{}\n",
                       evicted, digits, nodes.size() - failed.size(), nodes.size(),
                       evicted > 0 ? "" : ": `farpage status` shows which namespaces have pages"));
  if (!told) return report_error(told.error());
  if (evicted_now > 0) {
    return report_error(
        {Code::kExhausted, "more such pages come while these go: stop the clients that put them"});
  }
  return failed.empty() ? kExitDone : kExitFailed;
}

int run_flush(const FlushArguments& arguments) {
  const Result<ConnectOptions> options = arguments.reach.load();
  if (!options) return report_error(options.error(), kExitUsage);
  const Result<uint32_t> tag = parse_tag(arguments.name_space);
  if (!tag) return report_error(tag.error(), kExitUsage);
  if (!options->names_nodes()) {
    return report_error({Code::kInvalid,
                         "no memory node is named: give --node, or a --config that names the nodes "
                         "with client.node, cluster.nodes or etcd.endpoints"},
                        kExitUsage);
  }
  const Interrupts interrupts;
  const auto nodes = nodes_of(*options);
  if (!nodes) return report_error(nodes.error());
  if (nodes->empty()) return report_error({Code::kNotFound, "the fleet has no living node"});
  return flush_all(*nodes, arguments.name_space, *tag, *options, interrupts);
}

}  // namespace

void add_flush_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("flush", "Evicts all pages of a namespace from its nodes");
  auto arguments = std::make_shared<FlushArguments>();
  command
      ->add_option("NAMESPACE", arguments->name_space,
                   "32 or 8 hexadecimal digits, as 'farpage status' shows them")
      ->required();
  arguments->reach.add_control_to(*command, "Address of a node that serves alone");
  command->callback([arguments, &exit_code] { exit_code = run_flush(*arguments); });
}

}  // namespace farpage
