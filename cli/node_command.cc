#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "cli/cluster_options.h"
#include "cli/commands.h"
#include "cli/descriptors.h"
#include "cli/etcd_fleet.h"
#include "cli/exit_code.h"
#include "cli/held_pools.h"
#include "cli/metrics.h"
#include "cli/node_front.h"
#include "cli/options.h"
#include "cli/signals.h"
#include "net/security_options.h"
#include "node/epoch_file.h"
#include "node/node.h"
#include "node/node_metrics.h"
#include "node/tenants.h"

namespace farpage {
namespace {

struct NodeArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string listen;
  std::string backend;
  bool allow_emulated = false;
  std::string token_file;
  std::string state;
  uint64_t pool_bytes = 0;
  uint64_t page_bytes = 0;
  int ready_fd = -1;
};

struct NodeSettings {
  NodeOptions node;
  NodeCluster cluster;
  NodeEtcd etcd;
  BackendOptions backends;
  std::vector<TenantOptions> tenants;
  Address listen;
  NodeCredentials credentials;
  ClientCredentials peer_credentials;

  bool is_member() const { return cluster.is_given() || etcd.is_given(); }
};

// How long one try to reach another node of the cluster may take.
constexpr uint64_t kPeerConnectMs = 2'000;

// Where the list says that this node is, unless it is told otherwise.
Result<void> find_itself(NodeCluster& cluster, NodeOptions& options, bool told_where,
                         bool has_etcd) {
  if (!cluster.is_given()) return {};
  if (has_etcd) {
    return fail(Code::kInvalid, "cluster.nodes and etcd.endpoints are both given: leave one out");
  }
  cluster.page_bytes = options.page_bytes;
  if (auto epoch = cluster.epoch(); !epoch) return tl::unexpected(epoch.error());
  const auto list = cluster.list();
  const auto self = std::find_if(list->begin(), list->end(),
                                 [&](const NamedNode& node) { return node.name == cluster.name; });
  if (self == list->end()) {
    return fail(Code::kInvalid,
                fmt::format("cluster.nodes has no node '{}': say with cluster.name which of "
                            "them this one is",
                            cluster.name));
  }
  if (!told_where) options.listen = format_address(self->address);
  return {};
}

// What a member that etcd tells of needs besides.
Result<void> check_etcd(const NodeSettings& settings) {
  if (!settings.etcd.is_given()) return {};
  const NodeCluster& cluster = settings.cluster;
  if (cluster.name.empty() || cluster.name.find('/') != std::string::npos) {
    return fail(Code::kInvalid,
                "etcd.endpoints are given, and cluster.name is none: give this node a name of its "
                "own, without a '/'");
  }
  if (cluster.replicas == 0 || cluster.replicas > kMaxReplicas) {
    return fail(Code::kInvalid, fmt::format("cluster.replicas is {}: choose 1 to {}",
                                            cluster.replicas, kMaxReplicas));
  }
  const bool anywhere = settings.listen.host == "0.0.0.0" || settings.listen.host == "::";
  if (cluster.address.empty() && anywhere) {
    return fail(Code::kInvalid,
                fmt::format("this node listens on {}, which leads nobody to it: say with "
                            "cluster.address where others reach it",
                            format_address(settings.listen)));
  }
  if (!cluster.address.empty()) {
    if (auto address = parse_address(cluster.address); !address) {
      return fail(Code::kInvalid, "cluster.address: " + address.error().message);
    }
  }
  return settings.etcd.validate().and_then(
      [&] { return settings.etcd.load().map([](const etcd::Access&) {}); });
}

// Why this process is to end, from any thread; the first that was given.
class Ending {
 public:
  Ending() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { FARPAGE_CHECK(fd_.valid()); }

  void because(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (why_.empty()) why_ = why;
    (void)::eventfd_write(fd_.get(), 1);
  }
  int fd() const { return fd_.get(); }  // readable then
  std::string why() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  UniqueFd fd_;
  mutable std::mutex mutex_;
  std::string why_;
};

Result<std::unique_ptr<ReachableFleet>> reach_fleet(const NodeSettings& settings,
                                                    const std::string& address, Ending& ending,
                                                    AsioRuntime& runtime) {
  const NodeCluster& cluster = settings.cluster;
  if (!settings.etcd.is_given()) {
    return ListedFleet::make(cluster, runtime, settings.peer_credentials, kPeerConnectMs);
  }
  const etcd::NodeRecord self = {cluster.name, cluster.address.empty() ? address : cluster.address,
                                 owner_of(settings.node.state), 0};
  const etcd::Terms terms = {settings.node.lease_ms, settings.node.page_bytes, cluster.replicas,
                             cluster.seed};
  return EtcdFleet::join(
      settings.etcd, self, terms, [&ending](const std::string& why) { ending.because(why); },
      runtime, settings.peer_credentials, kPeerConnectMs);
}

// Each with a token of its own; none is another's, or the node's own.
Result<void> load_tenants(NodeSettings& settings) {
  if (settings.tenants.empty()) return {};
  if (auto valid = validate(settings.tenants, settings.node); !valid) return valid;
  if (settings.is_member()) {
    return fail(Code::kInvalid,
                "a node with tenants serves alone: leave out [cluster] and [etcd], or the tables "
                "[tenant.NAME]");
  }
  if (!settings.listen.is_tcp()) {
    return fail(
        Code::kInvalid,
        fmt::format("tenants are told apart by their tokens, which nobody shows on the Unix "
                    "socket {}: listen on tcp://HOST:PORT",
                    settings.listen.path));
  }
  std::vector<SharedToken>& tokens = settings.credentials.tenants;
  for (const TenantOptions& tenant : settings.tenants) {
    auto token = SharedToken::load(tenant.token_file);
    if (!token) {
      return fail(token.error().code,
                  fmt::format("tenant.{}.token_file: {}", tenant.name, token.error().message));
    }
    const auto same = std::ranges::find(tokens, token->secret, &SharedToken::secret);
    const bool is_own = token->secret == settings.credentials.token.secret;
    if (same != tokens.end() || is_own) {
      const std::string other =
          is_own ? "the node itself (security.token_file)"
                 : fmt::format("the tenant '{}'",
                               settings.tenants[static_cast<size_t>(same - tokens.begin())].name);
      return fail(Code::kInvalid,
                  fmt::format("the tenant '{}' and {} have the same token: make one for each with "
                              "'openssl rand -hex 32'",
                              tenant.name, other));
    }
    tokens.push_back(std::move(*token));
  }
  return {};
}

Result<NodeSettings> load_settings(const CLI::App& app, const NodeArguments& arguments) {
  NodeSettings settings;
  NodeOptions& options = settings.node;
  NodeSecurity security;
  Result<Config> config = Config::load(arguments.config, arguments.overrides);
  if (!config) return tl::unexpected(config.error());
  const std::string default_listen = std::exchange(options.listen, "");
  if (auto read = config->read("node", fields(options)); !read) return tl::unexpected(read.error());
  if (auto read = config->read("cluster", fields(settings.cluster)); !read) {
    return tl::unexpected(read.error());
  }
  if (auto read = config->read("etcd", fields(settings.etcd)); !read) {
    return tl::unexpected(read.error());
  }
  if (auto read = config->read("security", fields(security)); !read) {
    return tl::unexpected(read.error());
  }
  if (auto read = settings.backends.read_node(*config); !read) {
    return tl::unexpected(read.error());
  }
  for (const std::string& name : config->names_below("tenant")) {
    TenantOptions& tenant = settings.tenants.emplace_back();
    tenant.name = name;
    if (auto read = config->read("tenant." + name, fields(tenant)); !read) {
      return tl::unexpected(read.error());
    }
  }
  if (auto finished = config->finish(); !finished) return tl::unexpected(finished.error());
  if (app.count("--listen") > 0) options.listen = arguments.listen;
  const bool told_where = !options.listen.empty();
  if (!told_where) options.listen = default_listen;
  if (app.count("--backend") > 0) options.backend = arguments.backend;
  if (app.count("--token-file") > 0) security.token_file = arguments.token_file;
  if (app.count("--state") > 0) options.state = arguments.state;
  if (app.count("--pool-bytes") > 0) options.pool_bytes = arguments.pool_bytes;
  if (app.count("--page-bytes") > 0) options.page_bytes = arguments.page_bytes;
  if (auto found = find_itself(settings.cluster, options, told_where, settings.etcd.is_given());
      !found) {
    return tl::unexpected(found.error());
  }
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  settings.backends.ucx.allow_emulated |= arguments.allow_emulated;
  if (auto valid = check_metrics(options.metrics_listen, "node.metrics_listen"); !valid) {
    return tl::unexpected(valid.error());
  }
  auto listen = parse_address(options.listen);
  if (!listen) return tl::unexpected(listen.error());
  settings.listen = std::move(*listen);
  if (auto valid = security.validate(settings.listen, !settings.tenants.empty()); !valid) {
    return tl::unexpected(valid.error());
  }
  auto credentials = security.load();
  if (!credentials) return tl::unexpected(credentials.error());
  settings.credentials = std::move(*credentials);
  if (auto loaded = load_tenants(settings); !loaded) return tl::unexpected(loaded.error());
  if (auto valid = check_etcd(settings); !valid) return tl::unexpected(valid.error());
  auto peer_credentials = security.load_as_client();
  if (!peer_credentials) return tl::unexpected(peer_credentials.error());
  settings.peer_credentials = std::move(*peer_credentials);
  return settings;
}

// To whoever started this node and waits for it, or else to standard error.
void announce(const UniqueFd& ready, const std::string& text) {
  if (!ready.valid()) {
    fmt::print(stderr, "farpage: {}", text);
  } else if (::write(ready.get(), text.data(), text.size()) < 0) {
    log_warning("nobody waits for this node to be ready");
  }
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
          fmt::print(stderr, "farpage: interrupted\n");
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

// `services`: of the tenants, in their order.
Result<std::unique_ptr<NodeService>> make_tenants(const NodeSettings& settings, NodeFront& front,
                                                  AsioRuntime& runtime,
                                                  std::vector<ControlService*>& services) {
  std::vector<Fabric*> fabrics;
  for (size_t i = 0; i < settings.tenants.size(); ++i) fabrics.push_back(&front.fabric(i));
  auto nodes = TenantNodes::create(settings.node, settings.tenants, runtime, fabrics);
  if (!nodes) return tl::unexpected(nodes.error());
  for (size_t i = 0; i < (*nodes)->tenants(); ++i) services.push_back(&(*nodes)->tenant(i));
  return std::unique_ptr<NodeService>(std::move(*nodes));
}

int run_node(const NodeSettings& settings, UniqueFd ready) {
  const NodeOptions& options = settings.node;
  const std::unique_ptr<HeldPools> held = HeldPools::take_over();
  const Interrupts interrupts;
  allow_many_descriptors();
  auto made = NodeFront::make({options.backend, settings.listen, settings.credentials,
                               settings.peer_credentials, options.io_threads, settings.backends});
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
  Ending ending;
  std::unique_ptr<ReachableFleet> fleet;
  Result<std::unique_ptr<NodeService>> node;
  std::vector<ControlService*> tenants;
  uint64_t last_epoch = 0;  // of the run before
  {
    const ExitWhileStarting exit_while_starting(interrupts, front);
    if (settings.is_member()) {
      // Before others are told of this process: one that runs with this file already is to stay.
      const auto file = EpochFile::open(options.state);
      if (!file) return announce_error(ready, file.error(), kExitFailed);
      auto reached = reach_fleet(settings, front.address(), ending, runtime);
      if (!reached) return announce_error(ready, reached.error(), kExitFailed);
      fleet = std::move(*reached);
    }
    if (held != nullptr) {
      const auto file = EpochFile::open(options.state);
      if (!file) return announce_error(ready, file.error(), kExitFailed);
      last_epoch = file->last_epoch();
      held->go_on_from(last_epoch, fleet == nullptr ? 0 : fleet->register_id());
    }
    // In a list nobody says whether a peer's versions have begun anew, and equal ones of two pages.
    const bool can_hold = fleet == nullptr || fleet->register_id() != 0;
    if (held != nullptr && !can_hold) held->keep({}, {});
    runtime.run([&] {
      if (!settings.tenants.empty()) {
        if (held != nullptr) {
          log_warning("what tenants keep here is not held: it ends with this process");
          held->keep({}, {});
        }
        node = make_tenants(settings, front, runtime, tenants);
        return;
      }
      node = fleet == nullptr ? make_memory_node(options, runtime, front.fabric(), held.get())
                              : make_memory_node(options, runtime, front.fabric(), fleet->fleet(),
                                                 node_id(settings.cluster.name),
                                                 can_hold ? held.get() : nullptr);
    });
  }
  if (!node) return announce_error(ready, node.error(), kExitFailed);
  if (held != nullptr) runtime.run([&] { held->began(last_epoch + 1); });
  auto metrics = serve_metrics(std::move(*metrics_socket),
                               [&runtime, &service = **node](MetricVisitor& visitor) {
                                 StatusReply status;
                                 runtime.run([&] { status = service.status(); });
                                 describe(status, visitor);
                               });
  int exit_code = kExitDone;
  if (metrics) {
    front.serve(runtime, **node, tenants, {.max_requests_per_s = options.max_requests_per_s});
    announce(ready, ready.valid() ? fmt::format("ready {}\n", front.address())
                                  : fmt::format("serving {} of pages of {} on {} ({})\n",
                                                format_bytes(options.pool_bytes),
                                                format_bytes(options.page_bytes), front.address(),
                                                front.fabric().capabilities().path));
    ready.reset();
    tell_ready();
    std::array<pollfd, 2> ends = {pollfd{interrupts.fd(), POLLIN, 0},
                                  pollfd{ending.fd(), POLLIN, 0}};
    while (!interrupts.interrupted() && ends[1].revents == 0) ::poll(ends.data(), ends.size(), -1);
    if (const std::string why = ending.why(); !why.empty()) log_warning(why);
  } else {
    exit_code = announce_error(ready, metrics.error(), kExitFailed);
  }
  front.close();
  if (metrics) metrics->reset();  // it asks the node
  runtime.run([&] { node->reset(); });
  if (fleet != nullptr) fleet->leave();
  return exit_code;
}

}  // namespace

void add_node_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("node", "Runs a memory node until SIGINT or SIGTERM");
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
                   "Where clients reach it: the path of a Unix socket, or tcp://HOST:PORT")
      ->type_name("ADDRESS");
  command->add_option(
      "--backend", arguments->backend,
      fmt::format("How bytes travel: {}. Without it: by the address", fmt::join(kBackends, ", ")));
  command->add_flag("--allow-emulated", arguments->allow_emulated, kAllowEmulatedHelp);
  command->add_option("--token-file", arguments->token_file, "The secret that clients must know")
      ->type_name("FILE");
  command
      ->add_option("--state", arguments->state, "File of the node's epoch, kept between its runs")
      ->type_name("FILE");
  add_size(*command, "--pool-bytes", arguments->pool_bytes, "Memory for pages");
  add_size(*command, "--page-bytes", arguments->page_bytes, "The longest page");
  command->add_option("--ready-fd", arguments->ready_fd,
                      "Descriptor on which to write \"ready\", or what went wrong");
  command->callback([command, arguments, &exit_code] {
    if (auto valid = check_ready_fd(arguments->ready_fd); !valid) {
      exit_code = report_error(valid.error(), kExitUsage);
      return;
    }
    UniqueFd ready(arguments->ready_fd);
    if (ready.valid()) ::fcntl(ready.get(), F_SETFD, FD_CLOEXEC);
    const Result<NodeSettings> settings = load_settings(*command, *arguments);
    exit_code = settings ? run_node(*settings, std::move(ready))
                         : announce_error(ready, settings.error(), kExitUsage);
  });
}

}  // namespace farpage
