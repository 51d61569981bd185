#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace farpage {

// One key of a table and the variable that it sets. Units stand in the key (`pool_bytes`,
// `lease_ms`); a key that ends in `_bytes` also takes text such as "4GiB".
struct ConfigField {
  std::string_view key;
  std::variant<uint64_t*, bool*, std::string*> target;
};

// A TOML file and the `table.key=value` overrides of the command line, which win.
//
//   Config config = Config::load(path, overrides)
//   config.read("node", fields(node))   leaves what is not named at its default
//   config.finish()                     refuses whatever no read() has asked for
//
// Every error names the file, the line and the key.
class Config {
 public:
  // An empty path: no file, overrides alone.
  static Result<Config> load(const std::string& path, std::span<const std::string> overrides);
  // `name` stands where errors name the file.
  static Result<Config> parse(std::string_view text, const std::string& name,
                              std::span<const std::string> overrides);

  Config(Config&&) noexcept;
  Config& operator=(Config&&) noexcept;
  ~Config();

  // The keys in the file below a table: of "tenant", the "a" of [tenant.a]. In order.
  std::vector<std::string> names_below(std::string_view table) const;

  Result<void> read(std::string_view table, std::span<const ConfigField> fields);
  // An unknown table or key is an error that names the nearest known one.
  Result<void> finish() const;
  // The same, but tables that no read() has named belong to other readers.
  Result<void> finish_own() const;

 private:
  struct Tables;
  explicit Config(std::unique_ptr<Tables> tables);
  Result<void> finish(bool leaves_other_tables) const;
  std::unique_ptr<Tables> tables_;
};

}  // namespace farpage
