#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "backends/backends.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/client/node_connection.h"
#include "client/metrics.h"
#include "net/security_options.h"
#include "tier/client.h"

namespace farpage {

// For an option that is a size in bytes: also takes "64KiB".
inline CLI::Validator size_text() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const Result<uint64_t> bytes = parse_bytes(text);
        if (!bytes) return bytes.error().message;
        text = std::to_string(*bytes);
        return "";
      },
      "SIZE");
}

// CLI11 by itself takes "-1" for a large number.
inline CLI::Validator count_text() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const bool is_count = !text.empty() && text.size() < 20 &&
                              text.find_first_not_of("0123456789") == std::string::npos;
        return is_count ? "" : "'" + text + "' is no whole number, or too large";
      },
      "COUNT");
}

// For an option whose values have commas between them (CLI11's delimiter).
inline CLI::Validator list_entry() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text.find_first_of("; \t\n") == std::string::npos) return "";
        return "'" + text + "' is no single entry: separate entries by commas, and by nothing else";
      },
      "");
}

inline CLI::Option* add_size(CLI::App& app, const std::string& name, uint64_t& bytes,
                             const std::string& help) {
  CLI::Option* option = app.add_option(name, bytes, help)->transform(size_text());
  return bytes == 0 ? option : option->default_str(format_bytes(bytes));
}

inline CLI::Option* add_count(CLI::App& app, const std::string& name, uint64_t& count,
                              const std::string& help) {
  return app.add_option(name, count, help)->check(count_text())->capture_default_str();
}

inline CLI::Option* add_json(CLI::App& app, std::string& file) {
  return app
      .add_option("--json", file, "Writes the result as one JSON object; - for standard output")
      ->type_name("FILE");
}

// How many nodes a command starts when it is not told of any.
struct OwnNodesArguments {
  static constexpr uint64_t kMost = 16;
  uint64_t nodes = 1;
  uint64_t replicas = 1;

  // `node`: the option that names running ones. Returns --nodes.
  CLI::Option* add_to(CLI::App& app, CLI::Option* node) {
    CLI::Option* count =
        add_count(app, "--nodes", nodes, "How many nodes it starts, if it starts any")
            ->excludes(node);
    add_count(app, "--replicas", replicas, "How many of them hold each page")->needs(count);
    return count;
  }

  Result<void> validate() const {
    if (nodes == 0 || nodes > kMost) {
      return fail(Code::kInvalid, fmt::format("--nodes is {}: choose 1 to {}", nodes, kMost));
    }
    if (replicas == 0 || replicas > nodes) {
      return fail(Code::kInvalid, fmt::format("--replicas is {}: choose 1 to {}, as --nodes says",
                                              replicas, nodes));
    }
    return {};
  }
};

inline constexpr const char* kHedgeHelp =
    "Also asks another replica for a page that takes longer than most";
inline Result<void> check_hedge(bool hedge, uint64_t replicas) {
  if (!hedge || replicas > 1) return {};
  return fail(Code::kInvalid,
              "--hedge asks another replica, and each page is on one node here: name nodes that "
              "hold replicas (cluster.nodes), or leave it out");
}

inline constexpr const char* kAllowEmulatedHelp =
    "ucx: also paths on which the peer's CPU answers every read";
inline constexpr const char* kNodeHelp = "Address of a running node. Without it: starts one";

// Which nodes, how to reach them, and the tables [client], [cluster], [etcd], [security], [rdma]
// and [ucx].
struct ReachArguments {
  std::string backend;
  bool allow_emulated = false;
  std::string node;
  std::string token_file;
  std::string file;
  std::vector<std::string> overrides;
  bool asks_node_alone = false;  // whatever others the tables tell of

  // For those that fetch.
  CLI::Option* add_to(CLI::App& app, const std::string& node_help) {
    app.add_option("--backend", backend,
                   fmt::format("Transport of the pages: {}. Without it: by the node's address",
                               built_backends()));
    app.add_flag("--allow-emulated", allow_emulated, kAllowEmulatedHelp);
    return add_control_to(app, node_help);
  }

  CLI::Option* add_control_to(CLI::App& app, const std::string& node_help) {
    add_tables_to(app);
    return app.add_option("--node", node, node_help)->type_name("ADDRESS");
  }

  void add_tables_to(CLI::App& app) {
    app.add_option("--token-file", token_file, "File with the secret that the node asks for")
        ->type_name("FILE");
    app.add_option(
           "--config", file,
           "TOML file with tables [client], [cluster], [etcd], [security], [rdma] and [ucx]")
        ->type_name("FILE");
    app.add_option("--set", overrides, "Overrides one key of it: client.KEY=VALUE")
        ->type_name("TABLE.KEY=VALUE")
        ->take_all()
        ->expected(1);
  }

  // `defaults`: of the table [client].
  Result<ConnectOptions> load(const ClientOptions& defaults = {}) const {
    ConnectOptions options;
    options.client = defaults;
    Result<Config> config = Config::load(file, overrides);
    if (!config) return tl::unexpected(config.error());
    if (auto read = options.read(*config); !read) return tl::unexpected(read.error());
    if (!backend.empty()) options.backend = backend;
    if (!node.empty()) options.node = node;
    if (!token_file.empty()) options.security.token_file = token_file;
    options.backends.ucx.allow_emulated |= allow_emulated;
    if (asks_node_alone) {
      options.cluster = {};
      options.etcd.endpoints.clear();
    }
    const auto valid = config->finish().and_then([&] { return validate(options); });
    if (!valid) return tl::unexpected(valid.error());
    auto credentials = options.security.load();
    if (!credentials) return tl::unexpected(credentials.error());
    options.credentials = std::move(*credentials);
    return options;
  }

 private:
  // Without nodes it starts its own, over any backend.
  Result<void> validate(const ConnectOptions& options) const {
    if (options.embedded) {
      return fail(Code::kInvalid,
                  "client.embedded = true has a node inside the process: this command measures "
                  "nodes in processes of their own, and starts one when it is told of none");
    }
    if (options.names_nodes()) return options.validate();
    return options.validate_use().and_then([&]() -> Result<void> {
      if (options.backend.empty()) return {};
      return find_backend(options.backend).map([](const BackendRegistration*) {});
    });
  }
};

}  // namespace farpage
