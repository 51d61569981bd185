#include "node/settings/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "pagetable/geometry.h"

namespace farpage {

std::vector<ConfigField> fields(NodeOptions& options) {
  return {
      {"listen", &options.listen},
      {"socket_mode", &options.socket_mode},
      {"socket_group", &options.socket_group},
      {"backend", &options.backend},
      {"io_threads", &options.io_threads},
      {"state", &options.state},
      {"least_epoch", &options.least_epoch},
      {"pool_bytes", &options.pool_bytes},
      {"page_bytes", &options.page_bytes},
      {"evict", &options.evict},
      {"eviction", &options.eviction},
      {"reuse_ms", &options.reuse_ms},
      {"lease_ms", &options.lease_ms},
      {"max_clients", &options.max_clients},
      {"max_lanes", &options.max_lanes},
      {"max_staging_bytes", &options.max_staging_bytes},
      {"staging_budget_bytes", &options.staging_budget_bytes},
      {"metrics_listen", &options.metrics_listen},
      {"max_requests_per_s", &options.max_requests_per_s},
      {"fill_bytes_per_s", &options.fill_bytes_per_s},
      {"scrub_bytes_per_s", &options.scrub_bytes_per_s},
  };
}

Result<void> NodeOptions::validate() const {
  const auto in_range = [](const char* key, uint64_t value, uint64_t least,
                           uint64_t most) -> Result<void> {
    if (value >= least && value <= most) return {};
    return fail(Code::kInvalid,
                fmt::format("node.{} is {}: choose {} to {}", key, value, least, most));
  };
  if (listen.empty()) {
    return fail(Code::kInvalid, "node.listen is empty: name a socket's path, or tcp://HOST:PORT");
  }
  if (state.empty()) return fail(Code::kInvalid, "node.state is empty: name a file");
  if (staging_budget_bytes != 0 && staging_budget_bytes < max_staging_bytes) {
    return fail(Code::kInvalid,
                fmt::format("node.staging_budget_bytes is {}, which is for all clients together, "
                            "and node.max_staging_bytes lets one of them ask for {}: raise the "
                            "former, or lower the latter",
                            format_bytes(staging_budget_bytes), format_bytes(max_staging_bytes)));
  }
  if (auto chosen = choose_eviction(eviction); !chosen) return tl::unexpected(chosen.error());
  return make_geometry(page_bytes, pool_bytes, slot_layout)
      .and_then([&](const Geometry&) { return in_range("reuse_ms", reuse_ms, 1, 60'000); })
      .and_then([&] { return in_range("least_epoch", least_epoch, 0, kMaxEpoch); })
      .and_then([&] { return in_range("io_threads", io_threads, 1, 256); })
      .and_then([&] { return in_range("lease_ms", lease_ms, 10, 600'000); })
      .and_then([&] { return in_range("max_clients", max_clients, 1, 100'000); })
      .and_then([&] { return in_range("max_lanes", max_lanes, 1, 1'024); })
      .and_then(
          [&] { return in_range("max_staging_bytes", max_staging_bytes, page_bytes, 64 * kGiB); })
      .and_then([&] { return in_range("max_requests_per_s", max_requests_per_s, 10, 10'000'000); })
      .and_then(
          [&] { return in_range("fill_bytes_per_s", fill_bytes_per_s, 64 * kKiB, 1'024 * kGiB); })
      .and_then([&] { return in_range("scrub_bytes_per_s", scrub_bytes_per_s, 0, 1'024 * kGiB); });
}

uint64_t NodeOptions::client_budget_bytes(size_t tenants) const {
  if (staging_budget_bytes != 0) return staging_budget_bytes;
  return std::max(pool_bytes / 4, 2 * max_staging_bytes * std::max<size_t>(tenants, 1));
}

uint64_t NodeOptions::eviction_bytes(size_t tenants) const {
  const auto policy = choose_eviction(eviction);
  const auto geometry = make_geometry(page_bytes, pool_bytes, slot_layout);
  if (!evict || !policy || !geometry) return 0;
  return farpage::eviction_bytes(*policy, geometry->slots, std::max<size_t>(tenants, 1));
}

}  // namespace farpage
