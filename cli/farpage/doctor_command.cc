#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <memory>

#include "backends/backends.h"
#include "cli/exit_code.h"
#include "cli/farpage/commands.h"
#include "cli/options.h"
#include "cli/version.h"
#include "doctor/examine.h"
#include "doctor/host/privileges.h"
#include "net/address/address.h"
#include "node/clients/client_budget.h"
#include "node/settings/options.h"
#include "pagetable/geometry.h"
#include "report/json.h"

namespace farpage {
namespace {

// Memory that a node keeps for each slot beside the page: its share of the index, and its own
// notes.
constexpr uint64_t kNodeBytesPerSlot = 32;

// What it takes for its pool.
uint64_t memory_bytes(const NodeOptions& node, const Geometry& geometry) {
  return node.pool_bytes + geometry.slots * kNodeBytesPerSlot + node.eviction_bytes(0);
}

// What its clients may make it hold beside the pool.
uint64_t client_bytes(const NodeOptions& node) {
  return node.client_budget_bytes(0) + node.max_clients * kOwnBytesOfClient;
}

struct DoctorArguments {
  std::string config;
  std::string listen;
  uint64_t pool_bytes = 0;
  std::vector<std::string> backends;
  std::string json;
};

Result<doctor::BackendSet> read_backends(const std::vector<std::string>& names,
                                         doctor::BackendSet by_default) {
  if (names.empty()) return by_default;
  doctor::BackendSet asked;
  for (const std::string& name : names) {
    const doctor::BackendCheck* backend = doctor::find_check(name);
    if (backend == nullptr) {
      return fail(Code::kInvalid, fmt::format("unknown backend '{}'; there are: {}", name,
                                              doctor::BackendSet::every().names()));
    }
    asked.add(*backend);
  }
  return asked;
}

doctor::BackendSet checks_of_this_build() {
  doctor::BackendSet built;
  for (const BackendRegistration* backend : every_backend()) {
    if (backend->is_built()) built.add(*backend->host);
  }
  return built;
}

Result<doctor::Wanted> read_wanted(const CLI::App& app, const DoctorArguments& arguments) {
  doctor::Wanted wanted;
  wanted.built = checks_of_this_build();
  auto asked = read_backends(arguments.backends, wanted.asked);
  if (!asked) return tl::unexpected(asked.error());
  wanted.asked = *asked;

  NodeOptions node;
  auto config = Config::load(arguments.config, {});
  if (!config) return tl::unexpected(config.error());
  if (auto read = config->read("node", fields(node)); !read) return tl::unexpected(read.error());
  BackendOptions backends;
  if (auto read = backends.read_node(*config); !read) return tl::unexpected(read.error());
  if (auto finished = config->finish_own(); !finished) return tl::unexpected(finished.error());
  if (app.count("--pool-bytes") > 0) node.pool_bytes = arguments.pool_bytes;
  if (app.count("--listen") > 0) node.listen = arguments.listen;
  if (auto valid = node.validate(); !valid) return tl::unexpected(valid.error());

  const bool has_config = !arguments.config.empty();
  if (has_config || app.count("--listen") > 0) {
    auto address = parse_address(node.listen);
    if (!address) return tl::unexpected(address.error());
    wanted.listen = *address;
  }
  auto geometry = make_geometry(node.page_bytes, node.pool_bytes);
  if (!geometry) return tl::unexpected(geometry.error());
  for (const BackendRegistration* backend : every_backend()) {
    if (backend->tell_doctor != nullptr) backend->tell_doctor(backends, wanted);
  }
  wanted.names_pool = has_config || app.count("--pool-bytes") > 0;
  wanted.pool_bytes = node.pool_bytes;
  wanted.memory_bytes = memory_bytes(node, *geometry);
  wanted.client_bytes = client_bytes(node);
  wanted.needed_bytes = [node](uint64_t pool_bytes) mutable -> std::optional<uint64_t> {
    node.pool_bytes = pool_bytes;
    const auto smaller = make_geometry(node.page_bytes, pool_bytes);
    if (!smaller) return std::nullopt;
    return memory_bytes(node, *smaller) + client_bytes(node);
  };
  wanted.max_clients = node.max_clients;
  wanted.staging_bytes = ClientOptions().staging_bytes;  // which each may set
  if (has_config) wanted.node_command += " --config " + doctor::shell_word(arguments.config);
  if (app.count("--listen") > 0) {
    wanted.node_command += " --listen " + doctor::shell_word(arguments.listen);
  }
  return wanted;
}

boost::json::object doctor_json(const doctor::Wanted& wanted,
                                const std::vector<doctor::Finding>& findings) {
  boost::json::object subjects;
  for (const doctor::Finding& finding : findings) {
    boost::json::value& subject = subjects[finding.subject];
    if (subject.is_null()) subject = boost::json::object();
    subject.as_object()[finding.check] = {{"level", doctor::level_name(finding.level)},
                                          {"text", finding.text},
                                          {"command", finding.command},
                                          {"needed_by", finding.needed_by.names()}};
  }
  return {{"version", version()},
          {"backends", wanted.asked.names()},
          {"configuration",
           {{"pool_bytes", wanted.pool_bytes},
            {"max_clients", wanted.max_clients},
            {"listen", wanted.listen ? format_address(*wanted.listen) : ""}}},
          {"hardware", hardware_json()},
          {"can_run", !doctor::has_problem(findings)},
          {"findings", subjects}};
}

std::string doctor_table(const doctor::Wanted& wanted,
                         const std::vector<doctor::Finding>& findings) {
  return fmt::format("{}\nthis host can{} run {}\n", doctor::format_findings(findings),
                     doctor::has_problem(findings) ? "not" : "", wanted.asked.names());
}

// A file that cannot be there is wrong usage; one that ends early is not.
int exit_code_of(const Error& error) {
  return error.code == Code::kNotFound || error.code == Code::kDenied ? kExitUsage : kExitFailed;
}

int run_doctor(const CLI::App& app, const DoctorArguments& arguments) {
  const Result<doctor::Wanted> wanted = read_wanted(app, arguments);
  if (!wanted) return report_error(wanted.error(), kExitUsage);
  const auto findings = doctor::examine(*wanted, doctor::HostFiles());
  const auto written = write_json_and_table(arguments.json, doctor_json(*wanted, findings),
                                            doctor_table(*wanted, findings));
  if (!written) return report_error(written.error(), exit_code_of(written.error()));
  return doctor::has_problem(findings) ? kExitFailed : kExitDone;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("doctor", "Checks whether this host can run a memory node or a client");
  auto arguments = std::make_shared<DoctorArguments>();
  command
      ->add_option("--backend", arguments->backends,
                   "Backend whose problems count; may be repeated. Without it: shm and tcp")
      ->type_name("NAME")
      ->take_all()
      ->expected(1);
  command
      ->add_option("--config", arguments->config, "TOML file with tables [node], [rdma] and [ucx]")
      ->type_name("FILE");
  command
      ->add_option("--listen", arguments->listen,
                   "Address that a node would listen on: a socket's path, or tcp://HOST:PORT")
      ->type_name("ADDRESS");
  add_size(*command, "--pool-bytes", arguments->pool_bytes, "Memory for pages");
  add_json(*command, arguments->json);
  command->callback(
      [command, arguments, &exit_code] { exit_code = run_doctor(*command, *arguments); });
}

}  // namespace farpage
