#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <memory>
#include <mutex>
#include <optional>

#include "base/units.h"
#include "bench/json.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/version.h"
#include "control/unix_socket.h"

namespace farpage {
namespace {

constexpr uint64_t kPatienceNs = 5 * kSecond;

struct StatusArguments {
  std::string node;
  std::string json;
};

// The answers come on the runtime's thread, perhaps after nobody waits for them any more.
struct Conversation {
  std::shared_ptr<ControlLink> link;  // the runtime's alone
  std::mutex mutex;
  std::optional<Result<Reply>> reply;

  bool is_answered() {
    const std::lock_guard lock(mutex);
    return reply.has_value();
  }
};

Result<StatusReply> ask(const std::string& path) {
  AsioRuntime runtime;
  auto dialer = make_unix_dialer(runtime, path);
  if (!dialer) return tl::unexpected(dialer.error());
  auto conversation = std::make_shared<Conversation>();
  const auto answered = [&runtime, conversation](Result<Reply> reply) {
    {
      const std::lock_guard lock(conversation->mutex);
      conversation->reply.emplace(std::move(reply));
    }
    runtime.notify();
  };
  runtime.run([&] {
    (*dialer)->dial([conversation, answered](Result<std::shared_ptr<ControlLink>> link) {
      if (!link) return answered(tl::unexpected(link.error()));
      conversation->link = *link;
      (*link)->call(StatusRequest{}, answered);
    });
  });
  const bool is_answered = runtime.wait_until(runtime.clock().now_ns() + kPatienceNs,
                                              [&] { return conversation->is_answered(); });
  runtime.run([&] { conversation->link.reset(); });
  if (!is_answered) {
    return fail(Code::kTimeout,
                fmt::format("the node on {} did not answer within {} s; is it stopped?", path,
                            kPatienceNs / kSecond));
  }
  const Result<Reply>& reply = *conversation->reply;
  if (!reply) return tl::unexpected(reply.error());
  if (const auto* refusal = std::get_if<Refusal>(&*reply))
    return fail(refusal->code, refusal->message);
  if (const auto* status = std::get_if<StatusReply>(&*reply)) return *status;
  return fail(Code::kProtocol,
              fmt::format("what listens on {} is no memory node of this version", path));
}

boost::json::object status_json(const StatusReply& status) {
  return {{"version", version()},
          {"backend", status.backend},
          {"path", status.path},
          {"configuration", {{"page_bytes", status.page_bytes}, {"slots", status.slots}}},
          {"hardware", hardware_json()},
          {"epoch", status.epoch},
          {"incarnation", fmt::format("{:016x}", status.incarnation)},
          {"uptime_s", static_cast<double>(status.uptime_ns) * 1e-9},
          {"cpu_s", static_cast<double>(status.cpu_ns) * 1e-9},
          {"page_bytes", status.page_bytes},
          {"slots", status.slots},
          {"slots_live", status.slots_live},
          {"slots_free", status.slots_free},
          {"slots_cooling", status.slots_cooling},
          {"clients", status.clients},
          {"puts", status.puts},
          {"put_bytes", status.put_bytes},
          {"puts_refused", status.puts_refused},
          {"removes", status.removes},
          {"evictions", status.evictions}};
}

std::string status_table(const StatusReply& status) {
  std::string text;
  const auto row = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<24} {}\n", name, value);
  };
  row("path", fmt::format("{}: {}", status.backend, status.path));
  row("epoch", std::to_string(status.epoch));
  row("incarnation", fmt::format("{:016x}", status.incarnation));
  row("up", fmt::format("{:.1f} s", static_cast<double>(status.uptime_ns) * 1e-9));
  row("CPU time", fmt::format("{:.3f} s", static_cast<double>(status.cpu_ns) * 1e-9));
  row("slots", fmt::format("{} of {}", status.slots, format_bytes(status.page_bytes)));
  row("  live", std::to_string(status.slots_live));
  row("  free", std::to_string(status.slots_free));
  row("  cooling", std::to_string(status.slots_cooling));
  row("clients", std::to_string(status.clients));
  row("puts", fmt::format("{} ({}), {} refused", status.puts, format_bytes(status.put_bytes),
                          status.puts_refused));
  row("removes", std::to_string(status.removes));
  row("evictions", std::to_string(status.evictions));
  return text;
}

int run_status(const StatusArguments& arguments) {
  const Result<StatusReply> status = ask(arguments.node);
  if (!status) return report_error(status.error());
  if (!arguments.json.empty()) {
    const auto written = write_text(arguments.json, format_json(status_json(*status)));
    if (!written) return report_error(written.error());
  }
  if (arguments.json != "-") {
    const auto written = write_text("-", status_table(*status));
    if (!written) return report_error(written.error());
  }
  return kExitDone;
}

}  // namespace

void add_status_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("status", "Asks a memory node how it is");
  auto arguments = std::make_shared<StatusArguments>();
  command->add_option("--node", arguments->node, "Its socket")->type_name("PATH")->required();
  add_json(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = run_status(*arguments); });
}

}  // namespace farpage
