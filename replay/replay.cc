#include "replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/memory/system_memory.h"
#include "replay/page_content.h"
#include "replay/page_fit.h"
#include "replay/replay_engine.h"

namespace farpage {
namespace {

constexpr uint64_t kRoundPages = 1024;  // a longer request is served in several fetches
constexpr uint64_t kRoundBytes = 256 * kMiB;

uint64_t round_pages(const Trace& trace, const ReplayOptions& options) {
  const uint64_t most = std::clamp<uint64_t>(kRoundBytes / options.page_bytes, 1, kRoundPages);
  return std::clamp<uint64_t>(trace.longest_request(), 1, most);
}

}  // namespace

Result<void> ReplayOptions::validate() const {
  if (page_bytes < kMinContentBytes) {
    return fail(Code::kInvalid,
                fmt::format("a page has {} bytes: choose at least {}, so that its content "
                            "can tell whose it is",
                            page_bytes, kMinContentBytes));
  }
  if (fetch_deadline_ns == 0 || put_deadline_ns == 0) {
    return fail(Code::kInvalid, "a deadline of 0 leaves no time at all: choose a longer one");
  }
  return {};
}

FetchOptions ReplayOptions::fetch_options(uint64_t block_tokens) const {
  const uint64_t rate = prefill_tokens_per_s;
  const uint64_t recompute_ns =
      rate == 0 ? 0 : std::max<uint64_t>(1, block_tokens * kSecond / rate);
  return {.hedge = hedge, .recompute_ns = recompute_ns};
}

double ReplayResult::bytes_per_s(uint64_t page_bytes) const {
  return fetch_seconds > 0 ? static_cast<double>(ready * page_bytes) / fetch_seconds : 0;
}

uint64_t ReplayResult::recomputed() const {
  uint64_t sum = 0;
  for (const uint64_t count : recompute) sum += count;
  return sum;
}

Replay::Replay(std::unique_ptr<ReplayEngine> engine) : engine_(std::move(engine)) {}
Replay::Replay(Replay&&) noexcept = default;
Replay::~Replay() = default;

Result<Replay> Replay::create(Client& client, Fabric& fabric, const Trace& trace,
                              const ReplayOptions& options) {
  if (const Result<void> valid = options.validate(); !valid) return tl::unexpected(valid.error());
  if (const Result<void> fits = check_page_fits(options.page_bytes, client); !fits) {
    return tl::unexpected(fits.error());
  }
  const uint64_t round = round_pages(trace, options);
  const uint64_t pages = options.local_pages + round;
  const uint64_t available = available_memory_bytes();
  if (pages < round || pages > std::numeric_limits<uint32_t>::max() ||
      pages > available / options.page_bytes) {
    return fail(
        Code::kExhausted,
        fmt::format("{} local pages of {} do not fit into the {} of memory that are available: "
                    "choose fewer",
                    options.local_pages, format_bytes(options.page_bytes),
                    format_bytes(available)));
  }
  Result<PagePool> pool =
      PagePool::create(fabric, options.page_bytes, static_cast<uint32_t>(pages));
  if (!pool) return tl::unexpected(pool.error());
  Result<Lane> lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  return Replay(
      std::make_unique<ReplayEngine>(client, std::move(*pool), std::move(*lane), trace, options));
}

ReplayResult Replay::run(const ReplayHooks& hooks) {
  return engine_->run(hooks);
}

}  // namespace farpage
