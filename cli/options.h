#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/units.h"
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

// --config and --set, and the table [client] that they fill.
struct ClientConfig {
  std::string file;
  std::vector<std::string> overrides;

  void add_to(CLI::App& app) {
    app.add_option("--config", file, "TOML file with a table [client]")->type_name("FILE");
    app.add_option("--set", overrides, "Overrides one key of it: client.KEY=VALUE")
        ->type_name("TABLE.KEY=VALUE")
        ->take_all()
        ->expected(1);
  }

  Result<ClientOptions> load() const {
    ClientOptions options;
    Result<Config> config = Config::load(file, overrides);
    if (!config) return tl::unexpected(config.error());
    if (auto read = config->read("client", fields(options)); !read)
      return tl::unexpected(read.error());
    if (auto finished = config->finish(); !finished) return tl::unexpected(finished.error());
    if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
    return options;
  }
};

}  // namespace farpage
