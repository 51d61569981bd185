#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/stderr.h"
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

struct FlushArguments {
  ReachArguments reach;
  std::string name_space;
};

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

// How many pages the node has evicted.
Result<uint64_t> flush(const NamedAddress& node, uint32_t name_space, const ConnectOptions& options,
                       const Interrupts& interrupts) {
  auto conversation = NodeConversation::open(node.address, options.credentials,
                                             options.client.connect_ms, interrupts);
  if (!conversation) return tl::unexpected(conversation.error());
  uint64_t evicted = 0;
  uint64_t cursor = 0;
  do {
    auto reply = (*conversation)->ask_for<FlushReply>(FlushRequest{name_space, cursor});
    if (!reply) return tl::unexpected(reply.error());
    evicted += reply->evicted;
    if (reply->next != 0 && reply->next <= cursor) {
      return fail(Code::kProtocol, "the node goes round in circles");
    }
    cursor = reply->next;
  } while (cursor != 0);
  return evicted;
}

// A member that is filled meanwhile may get a page from one whose turn comes later: so all are
// flushed again until none has evicted any more.
int run_flush(const FlushArguments& arguments) {
  constexpr int kMostRounds = 8;
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
  uint64_t evicted = 0;
  uint64_t failed = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    uint64_t evicted_now = 0;
    failed = 0;
    for (const NamedAddress& node : *nodes) {
      const auto pages = flush(node, *tag, *options, interrupts);
      if (interrupts.interrupted()) return report_error({Code::kAborted, "interrupted"});
      if (pages) {
        evicted_now += *pages;
        continue;
      }
      ++failed;
      if (round > 0) continue;
      const std::string who = node.name.empty() ? "" : fmt::format("node '{}': ", node.name);
      (void)report_error({pages.error().code, who + pages.error().message});
    }
    evicted += evicted_now;
    if (evicted_now == 0) break;
  }
  if (failed == nodes->size()) return kExitFailed;
  const auto told = write_text(
      "-", fmt::format("{} pages of the namespace {} are evicted from {} of {} nodes\n", evicted,
                       arguments.name_space, nodes->size() - failed, nodes->size()));
  if (!told) return report_error(told.error());
  return failed == 0 ? kExitDone : kExitFailed;
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
