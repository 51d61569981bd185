#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "cli/client/node_conversation.h"
#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/farpage/commands.h"
#include "cli/farpage/status_report.h"
#include "cli/options.h"
#include "report/json.h"

namespace farpage {
namespace {

struct StatusArguments {
  ReachArguments reach;
  std::string json;
  bool watch = false;
  uint64_t interval_s = 1;
};

int show_once(const StatusArguments& arguments, const ConnectOptions& node,
              const Interrupts& interrupts) {
  const Result<StatusReply> status =
      ask_status(node.node, node.credentials, node.client.connect_ms, interrupts);
  if (!status) return report_error(status.error());
  const StatusReport report = {*status};
  const auto written =
      write_json_and_table(arguments.json, status_json(report), status_text(report));
  return written ? kExitDone : report_error(written.error());
}

// One look after the other, on standard output: on a terminal in the same place.
class StatusWatch {
 public:
  explicit StatusWatch(const StatusArguments& arguments)
      : node_(arguments.reach.node),
        json_(!arguments.json.empty()),
        in_place_(!json_ && ::isatty(STDOUT_FILENO) == 1) {}

  Result<void> show(const StatusReply& status) {
    const StatusReport report = {status, before_ ? &*before_ : nullptr};
    auto written = json_ ? write_text("-", format_json_line(status_json(report)))
                         : write_block(status_text(report));
    before_ = status;
    trouble_.clear();
    return written;
  }

  // Said once, until something else is wrong or the node is back.
  Result<void> show(const Error& error) {
    if (error.message == trouble_) return {};
    trouble_ = error.message;
    if (json_) return write_text("-", format_json_line({{"error", error.message}}));
    return write_block(error.message + "\nwaiting for the node\n");
  }

 private:
  static constexpr const char* kHomeAndClear = "\x1b[H\x1b[2J";

  Result<void> write_block(const std::string& text) {
    const std::string head = in_place_ ? kHomeAndClear : (std::exchange(first_, false) ? "" : "\n");
    return write_text("-", fmt::format("{}{:<24} {}\n{}", head, "node", node_, text));
  }

  const std::string node_;
  const bool json_;
  const bool in_place_;
  bool first_ = true;
  std::optional<StatusReply> before_;
  std::string trouble_;
};

int watch(const StatusArguments& arguments, const ConnectOptions& node,
          const Interrupts& interrupts) {
  StatusWatch watch(arguments);
  bool seen = false;
  while (!interrupts.interrupted()) {
    const Result<StatusReply> status =
        ask_status(node.node, node.credentials, node.client.connect_ms, interrupts);
    if (interrupts.interrupted()) break;
    if (!status && !seen) return report_error(status.error());
    seen = true;
    const Result<void> shown = status ? watch.show(*status) : watch.show(status.error());
    if (!shown) return report_error(shown.error());
    pollfd stop = {interrupts.fd(), POLLIN, 0};
    ::poll(&stop, 1, static_cast<int>(arguments.interval_s * 1'000));
  }
  return kExitDone;
}

int run_status(const StatusArguments& arguments) {
  const Result<ConnectOptions> node = arguments.reach.load();
  if (!node) return report_error(node.error(), kExitUsage);
  const Interrupts interrupts;
  if (!arguments.watch) return show_once(arguments, *node, interrupts);
  if (arguments.json.empty() || arguments.json == "-") return watch(arguments, *node, interrupts);
  return report_error(
      {Code::kInvalid,
       fmt::format("--watch writes one object a line to standard output, and no file: use "
                   "--json - instead of --json {}",
                   arguments.json)},
      kExitUsage);
}

}  // namespace

void add_status_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("status", "Shows the state of a memory node");
  auto arguments = std::make_shared<StatusArguments>();
  arguments->reach.asks_node_alone = true;
  arguments->reach.add_control_to(*command, "Address of the node")->required();
  CLI::Option* watch =
      command->add_flag("--watch", arguments->watch, "Repeats until SIGINT, with rates");
  add_count(*command, "--interval-s", arguments->interval_s, "Seconds between two reports")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86'400}))
      ->needs(watch);
  add_json(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = run_status(*arguments); });
}

}  // namespace farpage
