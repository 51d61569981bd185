#include "client/runner/ahead_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "prefetch/registry/registry.h"

namespace farpage {

std::vector<ConfigField> fields(AheadOptions& options) {
  return {{"pages", &options.pages},
          {"page_bytes", &options.page_bytes},
          {"prefetcher", &options.prefetcher},
          {"heads", &options.heads},
          {"linger_ms", &options.linger_ms}};
}

Result<void> AheadOptions::validate() const {
  if (pages > kMostPages) {
    return fail(Code::kInvalid, fmt::format("ahead.pages is {}: choose at most {}, or 0 for no "
                                            "pages fetched ahead",
                                            pages, kMostPages));
  }
  if (heads == 0 || heads > kMostHeads) {
    return fail(Code::kInvalid,
                fmt::format("ahead.heads is {}: choose 1 to {}", heads, kMostHeads));
  }
  if (linger_ms > kMostLingerMs) {
    return fail(Code::kInvalid,
                fmt::format("ahead.linger_ms is {}: choose at most {}", linger_ms, kMostLingerMs));
  }
  const auto chosen = prefetch::choose_prefetcher(prefetcher);
  if (!chosen) return fail(Code::kInvalid, "ahead.prefetcher: " + chosen.error().message);
  if (chosen->info->sees_future) {
    return fail(Code::kInvalid,
                fmt::format("ahead.prefetcher is {}, which has to know the future: choose another "
                            "one, or none",
                            prefetcher));
  }
  return {};
}

PrefetchOptions AheadOptions::lane_options() const {
  PrefetchOptions made;
  made.landing_pages = static_cast<uint32_t>(pages);
  made.page_bytes = page_bytes;
  made.scheduler.most_waiting = std::max(made.scheduler.most_waiting, made.landing_pages);
  made.known_pages += made.scheduler.most_waiting + made.landing_pages;
  made.heads = static_cast<uint32_t>(heads);
  return made;
}

std::unique_ptr<prefetch::Prefetcher> AheadOptions::make_prefetcher() const {
  return prefetch::choose_prefetcher(prefetcher)
      ->make({.budget_pages = pages,
              .layout = {.layers = 1, .heads = static_cast<uint32_t>(heads)},
              .page_bytes = nullptr});
}

}  // namespace farpage
