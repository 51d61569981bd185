#include "cli/node/tenant_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace farpage {
namespace {

// One of those that are told apart: the node's own, or a tenant's.
struct Entry {
  std::string key;   // of the configuration
  std::string name;  // in messages
  std::string path;
  WatchedSecret<SharedToken> token;
};

// The tokens in the files, and the previous ones for files that cannot be used; the first error of
// all.
struct Read {
  std::vector<std::optional<SharedToken>> tokens;
  std::optional<Error> failed;
};

Read read_all(std::span<const Entry> entries) {
  Read read;
  for (const Entry& entry : entries) {
    auto token = SharedToken::load(entry.path);
    if (!token && !read.failed) {
      read.failed =
          Error{token.error().code, fmt::format("{}: {}", entry.key, token.error().message)};
    }
    const auto in_use = entry.token.get();
    read.tokens.push_back(token               ? std::optional(std::move(*token))
                          : in_use != nullptr ? std::optional(*in_use)
                                              : std::nullopt);
  }
  return read;
}

Result<void> check_distinct(std::span<const Entry> entries,
                            std::span<const std::optional<SharedToken>> tokens) {
  for (size_t i = 0; i < entries.size(); ++i) {
    for (size_t before = 0; before < i; ++before) {
      if (!tokens[i] || !tokens[before] || tokens[i]->secret != tokens[before]->secret) continue;
      return fail(Code::kInvalid,
                  fmt::format("{} and {} have the same token: make one for each with 'openssl rand "
                              "-hex 32'",
                              entries[i].name, entries[before].name));
    }
  }
  return {};
}

Result<void> read_again(std::span<Entry> entries) {
  Read read = read_all(entries);
  if (auto distinct = check_distinct(entries, read.tokens); !distinct) return distinct;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (read.tokens[i]) {
      entries[i].token.set(std::make_shared<SharedToken>(std::move(*read.tokens[i])));
    }
  }
  if (read.failed) return tl::unexpected(std::move(*read.failed));
  return {};
}

}  // namespace

Result<TenantTokens> TenantTokens::load(const std::string& own_path,
                                        std::span<const TenantOptions> tenants) {
  TenantTokens tokens;
  std::vector<Entry> entries;
  if (!own_path.empty()) {
    entries.push_back(
        {"security.token_file", "the node itself (security.token_file)", own_path, tokens.own});
  }
  for (const TenantOptions& tenant : tenants) {
    entries.push_back({fmt::format("tenant.{}.token_file", tenant.name),
                       fmt::format("the tenant '{}'", tenant.name), tenant.token_file,
                       tokens.tenants.emplace_back()});
  }
  SecretFiles::Options options = {.what = "a token of the node or its tenants",
                                  .paths = {},
                                  .read = [entries]() mutable { return read_again(entries); }};
  for (const Entry& entry : entries) options.paths.push_back(entry.path);
  auto watch = SecretWatch::begin(std::move(options));
  if (!watch) return tl::unexpected(watch.error());
  tokens.watch = std::move(*watch);
  return tokens;
}

}  // namespace farpage
