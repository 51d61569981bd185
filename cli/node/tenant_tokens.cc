#include "cli/node/tenant_tokens.h"

#include <fmt/format.h>

#include <memory>
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

using Tokens = std::vector<std::shared_ptr<SharedToken>>;  // of each entry; null: none

Error same_token(const Entry& one, const Entry& other) {
  return Error{Code::kInvalid,
               fmt::format("{} and {} have the same token: make one for each with 'openssl rand "
                           "-hex 32'",
                           one.name, other.name)};
}

// Of two that are the same, those that are new stay out. No two in use are the same, so that one
// at least is new.
void keep_distinct(std::span<const Entry> entries, const Tokens& in_use, Tokens& tokens,
                   SecretFiles::Results& results) {
  for (size_t i = 1; i < entries.size(); ++i) {
    for (size_t before = 0; before < i; ++before) {
      if (!tokens[i] || !tokens[before] || tokens[i]->secret != tokens[before]->secret) continue;
      for (const size_t each : {i, before}) {
        if (tokens[each] == in_use[each]) continue;
        tokens[each] = in_use[each];
        results[each] = tl::unexpected(same_token(entries[i], entries[before]));
      }
      return keep_distinct(entries, in_use, tokens, results);
    }
  }
}

SecretFiles::Results read_again(std::span<Entry> entries, const SecretFiles::Reads& reads) {
  SecretFiles::Results results(entries.size());
  Tokens in_use;
  for (const Entry& entry : entries) in_use.push_back(entry.token.get());
  Tokens tokens = in_use;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!reads[i]) continue;
    auto token = SharedToken::load(entries[i].path);
    if (token && in_use[i] && token->secret == in_use[i]->secret) continue;
    if (token) {
      tokens[i] = std::make_shared<SharedToken>(std::move(*token));
    } else {
      results[i] =
          fail(token.error().code, fmt::format("{}: {}", entries[i].key, token.error().message));
    }
  }
  keep_distinct(entries, in_use, tokens, results);
  for (size_t i = 0; i < entries.size(); ++i) entries[i].token.set(std::move(tokens[i]));
  return results;
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
  SecretFiles::Options options;
  for (const Entry& entry : entries) {
    options.secrets.push_back(
        {.what = fmt::format("the token of {} in '{}'", entry.name, entry.path),
         .paths = {entry.path}});
  }
  options.read = [entries](const auto& reads) mutable { return read_again(entries, reads); };
  auto watch = SecretWatch::begin(std::move(options));
  if (!watch) return tl::unexpected(watch.error());
  tokens.watch = std::move(*watch);
  return tokens;
}

}  // namespace farpage
