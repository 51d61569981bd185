#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "cli/backend.h"
#include "cli/connection.h"
#include "cli/metrics.h"
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

inline CLI::Option* add_size(CLI::App& app, const std::string& name, uint64_t& bytes,
                             const std::string& help) {
  CLI::Option* option = app.add_option(name, bytes, help)->transform(size_text());
  return bytes == 0 ? option : option->default_str(format_bytes(bytes));
}

inline CLI::Option* add_count(CLI::App& app, const std::string& name, uint64_t& count,
                              const std::string& help) {
  return app.add_option(name, count, help)->check(count_text())->capture_default_str();
}

inline void add_json(CLI::App& app, std::string& file) {
  app.add_option("--json", file, "Writes the result as one JSON object; - for standard output")
      ->type_name("FILE");
}

inline constexpr const char* kAllowEmulatedHelp =
    "ucx: also paths on which the peer's CPU answers every read";
inline constexpr const char* kNodeHelp = "Address of a running node. Without it: starts one";

// Which node, how to reach it, and the tables [client], [security], [rdma] and [ucx].
struct ReachArguments {
  std::string backend;
  bool allow_emulated = false;
  std::string node;
  std::string token_file;
  std::string file;
  std::vector<std::string> overrides;

  // For those that fetch.
  CLI::Option* add_to(CLI::App& app, const std::string& node_help) {
    app.add_option("--backend", backend,
                   fmt::format("How bytes travel: {}. Without it: by the node's address",
                               fmt::join(kBackends, ", ")));
    app.add_flag("--allow-emulated", allow_emulated, kAllowEmulatedHelp);
    return add_control_to(app, node_help);
  }

  CLI::Option* add_control_to(CLI::App& app, const std::string& node_help) {
    app.add_option("--token-file", token_file, "The secret that the node asks for")
        ->type_name("FILE");
    app.add_option("--config", file, "TOML file with tables [client], [security], [rdma] and [ucx]")
        ->type_name("FILE");
    app.add_option("--set", overrides, "Overrides one key of it: client.KEY=VALUE")
        ->type_name("TABLE.KEY=VALUE")
        ->take_all()
        ->expected(1);
    return app.add_option("--node", node, node_help)->type_name("ADDRESS");
  }

  // `defaults`: of the table [client].
  Result<ConnectOptions> load(const ClientOptions& defaults = {}) const {
    ConnectOptions options;
    options.backend = backend;
    options.node = node;
    options.client = defaults;
    ClientSecurity security;
    Result<Config> config = Config::load(file, overrides);
    if (!config) return tl::unexpected(config.error());
    const auto read = config->read("client", fields(options.client))
                          .and_then([&] { return config->read("security", fields(security)); })
                          .and_then([&] { return options.backends.read_client(*config); });
    if (!read) return tl::unexpected(read.error());
    if (!token_file.empty()) security.token_file = token_file;
    options.backends.ucx.allow_emulated |= allow_emulated;
    const auto valid =
        config->finish()
            .and_then([&] { return options.client.validate(); })
            .and_then([&] {
              return check_metrics(options.client.metrics_listen, "client.metrics_listen");
            })
            .and_then([&] { return security.validate(); })
            .and_then([&] { return validate_address(); });
    if (!valid) return tl::unexpected(valid.error());
    auto credentials = security.load();
    if (!credentials) return tl::unexpected(credentials.error());
    options.credentials = std::move(*credentials);
    return options;
  }

 private:
  Result<void> validate_address() const {
    if (node.empty()) return backend.empty() ? Result<void>() : check_backend(backend);
    return parse_address(node)
        .and_then([&](const Address& address) { return choose_backend(backend, address); })
        .map([](const std::string&) {});
  }
};

}  // namespace farpage
