#include "tier/request/client_options.h"

#include <fmt/format.h>

#include "control/messages.h"
#include "integrity/facts.h"

namespace farpage {

std::vector<ConfigField> fields(ClientOptions& options) {
  return {
      {"staging_bytes", &options.staging_bytes},
      {"location_pages", &options.location_pages},
      {"hedge_places", &options.hedge_places},
      {"connect_ms", &options.connect_ms},
      {"rest_ms", &options.rest_ms},
      {"metrics_listen", &options.metrics_listen},
      {"facts", &options.facts},
  };
}

Result<void> ClientOptions::validate() const {
  constexpr uint64_t kMostPages = uint64_t{1} << 34;
  if (staging_bytes > 64 * kGiB) {
    return fail(Code::kInvalid,
                fmt::format("client.staging_bytes is {}: choose at most 64GiB, or 0 "
                            "for a client that puts nothing",
                            staging_bytes));
  }
  if (location_pages > kMostPages) {
    return fail(Code::kInvalid, fmt::format("client.location_pages is {}: choose at most {}",
                                            location_pages, kMostPages));
  }
  if (hedge_places > kMostHedgePlaces) {
    return fail(Code::kInvalid, fmt::format("client.hedge_places is {}: choose at most {}, or 0 "
                                            "for no hedges",
                                            hedge_places, kMostHedgePlaces));
  }
  if (connect_ms == 0 || connect_ms > 3'600'000) {
    return fail(Code::kInvalid,
                fmt::format("client.connect_ms is {}: choose 1 to 3600000", connect_ms));
  }
  if (rest_ms > 86'400'000) {
    return fail(Code::kInvalid, fmt::format("client.rest_ms is {}: choose 1 to 86400000, or 0 for "
                                            "links that never rest",
                                            rest_ms));
  }
  if (facts.size() > kMaxFactsBytes) {
    return fail(Code::kInvalid,
                fmt::format("client.facts have {} bytes, and nodes take {} at most: give a hash of "
                            "what is long",
                            facts.size(), kMaxFactsBytes));
  }
  if (!facts.empty()) {
    const auto canonical = parse_facts(facts).and_then(
        [](const std::vector<Fact>& parsed) { return canonical_facts(parsed); });
    if (!canonical) return fail(Code::kInvalid, "client.facts: " + canonical.error().message);
  }
  return {};
}

}  // namespace farpage
