#include "base/config/config.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/config/suggestion.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace farpage {
namespace {

constexpr size_t kMaxFileBytes = kMiB;
constexpr std::string_view kBytesSuffix = "_bytes";
constexpr size_t kMaxQuotedBytes = 80;  // of what an error repeats

// A TOML value, once its table has been walked; any other kind is only named in messages.
struct OtherValue {
  std::string_view description;
};
using Value = std::variant<int64_t, bool, std::string, OtherValue>;

struct Entry {
  Value value;
  std::string origin;  // "node.toml:7" or "--set node.lease_ms=5"
};

struct Table {
  std::map<std::string, Entry, std::less<>> entries;
  std::string origin;
};

using TableMap = std::map<std::string, Table, std::less<>>;

std::string qualified(std::string_view table, std::string_view key) {
  return table.empty() ? std::string(key) : fmt::format("{}.{}", table, key);
}

std::string shortened(std::string_view text) {
  if (text.size() <= kMaxQuotedBytes) return std::string(text);
  return fmt::format("{}...", text.substr(0, kMaxQuotedBytes));
}

Value to_value(const toml::node& node) {
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  if (const auto* text = node.as_string()) return text->get();
  if (node.is_floating_point()) return OtherValue{"a number with a fraction or an exponent"};
  if (node.is_array()) return OtherValue{"an array"};
  if (node.is_table()) return OtherValue{"a table"};
  return OtherValue{"a date or time"};
}

std::string describe(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&value))
    return fmt::format("\"{}\"", shortened(*text));
  return std::string(std::get<OtherValue>(value).description);
}

void collect(const toml::table& from, const std::string& name, const std::string& path,
             TableMap& tables) {
  const auto origin = [&path](const toml::node& node) {
    return fmt::format("{}:{}", path, node.source().begin.line);
  };
  Table& table = tables[name];
  table.origin = origin(from);
  for (const auto& [key, node] : from) {
    if (const toml::table* inner = node.as_table()) {
      collect(*inner, qualified(name, key.str()), path, tables);
    } else {
      table.entries.insert_or_assign(std::string(key.str()), Entry{to_value(node), origin(node)});
    }
  }
}

Result<std::string> read_file(const std::string& path) {
  const std::string what = fmt::format("cannot read the configuration file {}", path);
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return fail_errno(errno, what);
  std::string text;
  std::array<char, 4096> part;
  while (true) {
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(errno, what);
    if (count == 0) return text;
    text.append(part.data(), static_cast<size_t>(count));
    if (text.size() > kMaxFileBytes) {
      return fail(Code::kInvalid,
                  fmt::format("{}: it is longer than {}; is it really a configuration?", what,
                              format_bytes(kMaxFileBytes)));
    }
  }
}

Result<void> collect_text(std::string_view text, const std::string& path, TableMap& tables) {
  if (text.size() > kMaxFileBytes) {
    return fail(Code::kInvalid, fmt::format("{} is longer than {}; is it really a configuration?",
                                            path, format_bytes(kMaxFileBytes)));
  }
  try {
    collect(toml::parse(text, path), "", path, tables);
  } catch (const toml::parse_error& error) {
    const toml::source_position& at = error.source().begin;
    return fail(Code::kInvalid,
                fmt::format("{}:{}:{}: {}", path, at.line, at.column, error.description()));
  }
  return {};
}

Value parse_override(const std::string& text) {
  try {
    const toml::table parsed = toml::parse("value = " + text);
    if (parsed.size() == 1) return to_value(*parsed.get("value"));
  } catch (const toml::parse_error&) {
    // Not TOML: then it is the bare text, so that a shell's user need not quote twice.
  }
  return text;
}

Result<void> collect_override(const std::string& text, TableMap& tables) {
  const std::string origin = "--set " + shortened(text);
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const size_t dot = name.rfind('.');
  if (equals == std::string::npos || dot == std::string::npos || dot == 0 ||
      dot + 1 == name.size()) {
    return fail(Code::kInvalid, fmt::format("{}: write it as table.key=value", origin));
  }
  Table& table = tables[name.substr(0, dot)];
  if (table.origin.empty()) table.origin = origin;
  table.entries.insert_or_assign(name.substr(dot + 1),
                                 Entry{parse_override(text.substr(equals + 1)), origin});
  return {};
}

Result<uint64_t> to_number(const Value& value, bool is_size) {
  const auto* integer = std::get_if<int64_t>(&value);
  if (integer != nullptr && *integer >= 0) return static_cast<uint64_t>(*integer);
  if (integer != nullptr) {
    return fail(Code::kInvalid, fmt::format("must not be negative, and is {}", *integer));
  }
  const auto* text = std::get_if<std::string>(&value);
  if (is_size && text != nullptr) {
    if (const Result<uint64_t> bytes = parse_bytes(*text)) return *bytes;
  }
  return fail(Code::kInvalid,
              fmt::format("must be a whole number{}, not {}",
                          is_size ? " of bytes or a size such as \"64KiB\"" : "", describe(value)));
}

Result<void> assign(const ConfigField& field, const Value& value) {
  if (uint64_t* const* number = std::get_if<uint64_t*>(&field.target)) {
    const Result<uint64_t> parsed = to_number(value, field.key.ends_with(kBytesSuffix));
    if (!parsed) return tl::unexpected(parsed.error());
    **number = *parsed;
  } else if (bool* const* flag = std::get_if<bool*>(&field.target)) {
    const auto* boolean = std::get_if<bool>(&value);
    if (boolean == nullptr) {
      return fail(Code::kInvalid, fmt::format("must be true or false, not {}", describe(value)));
    }
    **flag = *boolean;
  } else {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) {
      return fail(Code::kInvalid,
                  fmt::format("must be a string in quotes, not {}", describe(value)));
    }
    *std::get<std::string*>(field.target) = *text;
  }
  return {};
}

}  // namespace

struct Config::Tables {
  TableMap tables;
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> known;

  bool is_known(std::string_view table) const {
    const std::string prefix = qualified(table, "");
    return std::any_of(known.begin(), known.end(), [&](const auto& entry) {
      return entry.first == table || entry.first.starts_with(prefix);
    });
  }
  std::vector<std::string> known_names() const {
    std::vector<std::string> names;
    for (const auto& [name, keys] : known) names.push_back(name);
    return names;
  }
  Result<void> refuse_unknown_key(std::string_view table, std::string_view key,
                                  const Entry& entry) const;
};

Config::Config(std::unique_ptr<Tables> tables) : tables_(std::move(tables)) {}
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

Result<Config> Config::load(const std::string& path, std::span<const std::string> overrides) {
  if (path.empty()) return parse("", "", overrides);
  const Result<std::string> text = read_file(path);
  if (!text) return tl::unexpected(text.error());
  return parse(*text, path, overrides);
}

Result<Config> Config::parse(std::string_view text, const std::string& name,
                             std::span<const std::string> overrides) {
  auto tables = std::make_unique<Tables>();
  if (!text.empty()) {
    const Result<void> collected = collect_text(text, name, tables->tables);
    if (!collected) return tl::unexpected(collected.error());
  }
  for (const std::string& text : overrides) {
    const Result<void> collected = collect_override(text, tables->tables);
    if (!collected) return tl::unexpected(collected.error());
  }
  return Config(std::move(tables));
}

std::vector<std::string> Config::names_below(std::string_view table) const {
  const std::string prefix = qualified(table, "");
  std::vector<std::string> names;
  for (const auto& [name, entries] : tables_->tables) {
    if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  }
  return names;
}

Result<void> Config::read(std::string_view table, std::span<const ConfigField> fields) {
  auto& keys = tables_->known[std::string(table)];
  const auto found = tables_->tables.find(table);
  for (const ConfigField& field : fields) {
    keys.emplace(field.key);
    if (found == tables_->tables.end()) continue;
    const auto entry = found->second.entries.find(field.key);
    if (entry == found->second.entries.end()) continue;
    const Result<void> assigned = assign(field, entry->second.value);
    if (!assigned) {
      return fail(Code::kInvalid,
                  fmt::format("{}: {} {}", entry->second.origin, qualified(table, field.key),
                              assigned.error().message));
    }
  }
  return {};
}

Result<void> Config::Tables::refuse_unknown_key(std::string_view table, std::string_view key,
                                                const Entry& entry) const {
  if (table.empty() && is_known(key)) {
    return fail(Code::kInvalid,
                fmt::format("{}: {} must be a table: write [{}], and its keys below it",
                            entry.origin, key, key));
  }
  const auto keys = known.find(table);
  std::vector<std::string> names;
  if (keys != known.end()) names.assign(keys->second.begin(), keys->second.end());
  const std::string where = table.empty() ? "outside of any table" : fmt::format("in [{}]", table);
  return fail(Code::kInvalid, fmt::format("{}: unknown key '{}' {}{}", entry.origin, shortened(key),
                                          where, suggestion(key, names)));
}

Result<void> Config::finish() const {
  return finish(false);
}

Result<void> Config::finish_own() const {
  return finish(true);
}

Result<void> Config::finish(bool leaves_other_tables) const {
  for (const auto& [name, table] : tables_->tables) {
    if (leaves_other_tables && !tables_->known.contains(name)) continue;
    if (!name.empty() && !tables_->is_known(name)) {
      return fail(Code::kInvalid,
                  fmt::format("{}: unknown table [{}]{}", table.origin, shortened(name),
                              suggestion(name, tables_->known_names())));
    }
    const auto keys = tables_->known.find(name);
    for (const auto& [key, entry] : table.entries) {
      if (keys != tables_->known.end() && keys->second.contains(key)) continue;
      return tables_->refuse_unknown_key(name, key, entry);
    }
  }
  return {};
}

}  // namespace farpage
