#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "backends/backends.h"
#include "base/check.h"
#include "base/log.h"
#include "base/memory/system_memory.h"
#include "base/stderr.h"
#include "base/unique_fd.h"
#include "cli/client/descriptors.h"
#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/farpage/commands.h"
#include "cli/node/held_pools.h"
#include "cli/node/node_fleets.h"
#include "cli/node/node_front.h"
#include "cli/node/node_settings.h"
#include "cli/node/service_watchdog.h"
#include "cli/options.h"
#include "client/metrics.h"
#include "net/secrets/secret_watch.h"
#include "net/security/token_fingerprint.h"
#include "node/clients/client_budget.h"
#include "node/node.h"
#include "node/node_metrics.h"
#include "node/settings/epoch_file.h"
#include "node/tenants.h"

namespace farpage {
namespace {

// To the process that started this node and waits for it, or else to standard error.
void announce(const UniqueFd& ready, const std::string& text) {
  if (!ready.valid()) {
    write_stderr("farpage: " + text);
  } else if (::write(ready.get(), text.data(), text.size()) < 0) {
    log_warning("no supervisor asked for this node's readiness");
  }
}

// A standard stream is not closed with it: its number would be the next socket's.
UniqueFd take_ready_fd(int number) {
  if (number >= 0 && number <= STDERR_FILENO) {
    return UniqueFd(::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  }
  // One that is not open would be the next socket's, too.
  return UniqueFd(::fcntl(number, F_SETFD, FD_CLOEXEC) == 0 ? number : -1);
}

int announce_error(const UniqueFd& ready, const Error& error, int exit_code) {
  announce(ready, error.message + "\n");
  return exit_code;
}

// Taking the memory can last; until that is done there is nothing to clean up but the address, and
// Ctrl-C need not wait.
class ExitWhileStarting {
 public:
  ExitWhileStarting(const Interrupts& interrupts, NodeFront& front)
      : thread_([this, &interrupts, &front] {
          std::array<pollfd, 2> waits = {pollfd{interrupts.fd(), POLLIN, 0},
                                         pollfd{end_[0], POLLIN, 0}};
          while (::poll(waits.data(), waits.size(), -1) < 0) {
          }
          if (waits[0].revents == 0) return;
          front.close();
          write_stderr("farpage: interrupted\n");
          ::_exit(kExitFailed);
        }) {}

  ~ExitWhileStarting() {
    ::close(end_[1]);
    thread_.join();
    ::close(end_[0]);
  }

 private:
  static std::array<int, 2> make_pipe() {
    std::array<int, 2> ends = {-1, -1};
    FARPAGE_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0);
    return ends;
  }

  std::array<int, 2> end_ = make_pipe();
  std::thread thread_;
};

// Of each tenant's pool, or, without tenants, the node's; null where no process keeps it. The token
// says whose pages they are, and not the tenant's name.
std::vector<PoolHandoff*> keepers_of(const NodeSettings& settings, const NodeFleets& fleets,
                                     uint64_t last_epoch, HeldPools* held) {
  const bool has_tenants = !settings.tenants.empty();
  std::vector<PoolHandoff*> keepers(has_tenants ? settings.tenants.size() : 1);
  if (held == nullptr) return keepers;
  held->go_on_from(last_epoch);
  for (size_t i = 0; i < keepers.size(); ++i) {
    const uint64_t fleet = settings.is_member() ? fleets.register_id(i) : 0;
    // In a list no member knows whether a peer's versions have begun anew, and equal ones of two
    // pages.
    if (settings.is_member() && fleet == 0) continue;
    keepers[i] =
        &held->pool_of(has_tenants ? fingerprint(settings.peers[i].token.value()) : "", fleet);
  }
  held->give_up_others();
  return keepers;
}

// `services`: of the tenants, in their order.
Result<std::unique_ptr<NodeService>> make_tenants(const NodeSettings& settings, NodeFront& front,
                                                  AsioRuntime& runtime,
                                                  std::span<const Fleet> fleets,
                                                  std::span<PoolHandoff* const> keepers,
                                                  std::vector<ControlService*>& services) {
  std::vector<Fabric*> fabrics;
  for (size_t i = 0; i < settings.tenants.size(); ++i) fabrics.push_back(&front.fabric(i));
  auto nodes = TenantNodes::create(settings.node, settings.tenants, runtime, fabrics, keepers,
                                   fleets, node_id(settings.cluster.name));
  if (!nodes) return tl::unexpected(nodes.error());
  for (size_t i = 0; i < (*nodes)->tenants(); ++i) services.push_back(&(*nodes)->tenant(i));
  return std::unique_ptr<NodeService>(std::move(*nodes));
}

// Once the pools are there: what is left is for the clients.
Result<void> check_room_for_clients(const NodeSettings& settings) {
  const size_t tenants = settings.tenants.size();
  const uint64_t left_bytes = available_memory_bytes();
  const uint64_t eviction_bytes = settings.node.eviction_bytes(tenants);
  if (eviction_bytes > left_bytes) {
    return fail(Code::kExhausted,
                fmt::format("node.eviction = {} needs up to {} beside the pool, and this node may "
                            "take at most {}: choose a smaller pool_bytes, or clock",
                            settings.node.eviction, format_bytes(eviction_bytes),
                            format_bytes(left_bytes)));
  }
  return check_promises(settings.node.client_budget_bytes(tenants),
                        settings.node.max_clients * std::max<size_t>(tenants, 1),
                        left_bytes - eviction_bytes);
}

// Until it is interrupted, or its fleets say that it is to end.
void wait_for_end(Interrupts& interrupts, const NodeFleets& fleets) {
  std::array<pollfd, 3> waits = {pollfd{interrupts.fd(), POLLIN, 0},
                                 pollfd{fleets.ending_fd(), POLLIN, 0},
                                 pollfd{interrupts.hang_up_fd(), POLLIN, 0}};
  while (!interrupts.interrupted() && waits[1].revents == 0) {
    ::poll(waits.data(), waits.size(), -1);
    if (interrupts.take_hang_up()) read_secrets_again();
  }
}

int run_node(const NodeSettings& settings, UniqueFd ready) {
  const NodeOptions& options = settings.node;
  const std::unique_ptr<HeldPools> held = HeldPools::take_over();
  Interrupts interrupts(HangUp::kIsNoted);
  allow_many_descriptors();
  auto made =
      NodeFront::make({options.backend, settings.listen, settings.credentials, settings.peers,
                       options.io_threads, settings.backends, settings.socket_rights});
  if (!made) {
    const bool misused = made.error().code == Code::kInvalid;
    return announce_error(ready, made.error(), misused ? kExitUsage : kExitFailed);
  }
  NodeFront& front = **made;
  // Before the memory, which can last, and costs an epoch.
  if (auto opened = front.open(); !opened) {
    return announce_error(ready, opened.error(), kExitFailed);
  }
  auto metrics_socket = open_metrics(options.metrics_listen, "node.metrics_listen");
  if (!metrics_socket) return announce_error(ready, metrics_socket.error(), kExitFailed);
  AsioRuntime runtime;
  std::unique_ptr<NodeFleets> fleets;
  Result<std::unique_ptr<NodeService>> node;
  std::vector<ControlService*> tenants;
  uint64_t last_epoch = 0;  // of the run before
  {
    const ExitWhileStarting exit_while_starting(interrupts, front);
    {
      // Before others are told of this process: one that runs with this file already is to stay.
      const auto file = EpochFile::open(options.state);
      if (!file) return announce_error(ready, file.error(), kExitFailed);
      auto joined = NodeFleets::join(settings, front.address(), runtime);
      if (!joined) return announce_error(ready, joined.error(), kExitFailed);
      fleets = std::move(*joined);
      last_epoch = file->last_epoch();
    }
    const std::vector<PoolHandoff*> keepers = keepers_of(settings, *fleets, last_epoch, held.get());
    const std::vector<Fleet> members = fleets->fleets();
    runtime.run([&] {
      if (!settings.tenants.empty()) {
        node = make_tenants(settings, front, runtime, members, keepers, tenants);
        return;
      }
      node = members.empty() ? make_memory_node(options, runtime, front.fabric(), keepers.front())
                             : make_memory_node(options, runtime, front.fabric(), members.front(),
                                                node_id(settings.cluster.name), keepers.front());
    });
  }
  if (!node) return announce_error(ready, node.error(), kExitFailed);
  if (held != nullptr) runtime.run([&] { held->began(last_epoch + 1); });
  auto metrics = check_room_for_clients(settings).and_then([&] {
    return serve_metrics(std::move(*metrics_socket),
                         [&runtime, &service = **node](MetricVisitor& visitor) {
                           StatusReply status;
                           runtime.run([&] { status = service.status(); });
                           describe(status, visitor);
                         });
  });
  int exit_code = kExitDone;
  if (metrics && *metrics != nullptr) {
    write_stderr(fmt::format("farpage: metrics on {}\n", (*metrics)->url()));
  }
  if (metrics) {
    front.serve(runtime, **node, tenants, {.max_requests_per_s = options.max_requests_per_s});
    announce(ready, ready.valid() ? fmt::format("ready {}\n", front.address())
                                  : fmt::format("serving {} of pages of {} on {} ({})\n",
                                                format_bytes(options.pool_bytes),
                                                format_bytes(options.page_bytes), front.address(),
                                                front.fabric().capabilities().path));
    ready.reset();
    tell_ready();
    const auto watchdog = ServiceWatchdog::start(runtime);
    wait_for_end(interrupts, *fleets);
    if (const std::string why = fleets->why_it_ends(); !why.empty()) log_warning(why);
    if (fleets->has_failed()) exit_code = kExitFailed;
  } else {
    exit_code = announce_error(ready, metrics.error(), kExitFailed);
  }
  front.close();
  if (metrics) metrics->reset();  // it asks the node
  runtime.run([&] { node->reset(); });
  fleets->leave();
  return exit_code;
}

}  // namespace

void add_node_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("node",
                                         "Runs a memory node until SIGINT or SIGTERM. At SIGHUP it "
                                         "reads its tokens, certificates and passwords again");
  auto arguments = std::make_shared<NodeArguments>();
  command
      ->add_option("--config", arguments->config,
                   "TOML file with tables [node], [cluster], [etcd], [security], [rdma] and [ucx]")
      ->type_name("FILE");
  command->add_option("--set", arguments->overrides, "Overrides one key of it: node.KEY=VALUE")
      ->type_name("TABLE.KEY=VALUE")
      ->take_all()
      ->expected(1);
  command
      ->add_option("--listen", arguments->listen,
                   "Address for clients: the path of a Unix socket, or tcp://HOST:PORT")
      ->type_name("ADDRESS");
  command->add_option(
      "--backend", arguments->backend,
      fmt::format("Transport of the pages: {}. Without it: by the address", built_backends()));
  command->add_flag("--allow-emulated", arguments->allow_emulated, kAllowEmulatedHelp);
  command
      ->add_option("--token-file", arguments->token_file,
                   "File with the secret that clients must know")
      ->type_name("FILE");
  command->add_option("--state", arguments->state, "File that keeps the node's epoch between runs")
      ->type_name("FILE");
  add_size(*command, "--pool-bytes", arguments->pool_bytes, "Memory for pages");
  add_size(*command, "--page-bytes", arguments->page_bytes, "Size of the longest page");
  command->add_option("--ready-fd", arguments->ready_fd,
                      "Descriptor that gets \"ready\", or the error");
  command->callback([command, arguments, &exit_code] {
    ::signal(SIGHUP, SIG_IGN);  // no node ends of one, not even while it starts
    if (auto valid = check_ready_fd(arguments->ready_fd); !valid) {
      exit_code = report_error(valid.error(), kExitUsage);
      return;
    }
    UniqueFd ready = take_ready_fd(arguments->ready_fd);
    const Result<NodeSettings> settings = load_settings(
        *arguments, [command](const std::string& option) { return command->count(option) > 0; });
    exit_code = settings ? run_node(*settings, std::move(ready))
                         : announce_error(ready, settings.error(), kExitUsage);
  });
}

}  // namespace farpage
