#include "tier/ahead/prefetch_lane.h"

#include <fmt/format.h>

#include <utility>

#include "tier/ahead/ahead_pushes.h"
#include "tier/ahead/ahead_reads.h"
#include "tier/ahead/prefetch_engine.h"

namespace farpage {
namespace {

Result<std::unique_ptr<PrefetchTransport>> open_transfers(Client& client,
                                                          const PrefetchOptions& options,
                                                          uint64_t page_bytes) {
  const uint32_t most = options.scheduler.most_under_way;
  if (options.push_group_pages > 0) {
    auto lane = client.open_push_lane(
        {.pages = options.landing_pages, .group_pages = options.push_group_pages});
    if (!lane) return tl::unexpected(lane.error());
    return std::make_unique<AheadPushes>(std::move(*lane), options.landing_pages, most);
  }
  auto landing = client.make_pool(page_bytes, options.landing_pages);
  if (!landing) return tl::unexpected(landing.error());
  auto lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  return std::make_unique<AheadReads>(std::move(*lane), std::move(*landing), most);
}

}  // namespace

Result<void> PrefetchOptions::validate() const {
  if (landing_pages == 0 || heads == 0 || patience_ns == 0) {
    return fail(Code::kInvalid, "prefetch: landing_pages, heads and patience_ns are at least 1");
  }
  if (scheduler.most_under_way == 0 || scheduler.most_under_way > Lane::kWindow) {
    return fail(Code::kInvalid, fmt::format("prefetch: most_under_way is {}: 1 to {} are possible",
                                            scheduler.most_under_way, Lane::kWindow));
  }
  const uint64_t needed = uint64_t{scheduler.most_waiting} + landing_pages;
  if (known_pages <= needed) {
    return fail(
        Code::kInvalid,
        fmt::format("prefetch: known_pages is {}: with most_waiting {} and landing_pages {} "
                    "more than {} have to be known",
                    known_pages, scheduler.most_waiting, landing_pages, needed));
  }
  return {};
}

Result<PrefetchLane> PrefetchLane::open(Client& client, const PrefetchOptions& options,
                                        std::unique_ptr<prefetch::Prefetcher> prefetcher) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  const uint64_t page_bytes = options.page_bytes > 0 ? options.page_bytes : client.page_bytes();
  if (page_bytes == 0) {
    return fail(Code::kUnavailable, "prefetch: no node has answered with the length of its pages");
  }
  auto lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  auto transfers = open_transfers(client, options, page_bytes);
  if (!transfers) return tl::unexpected(transfers.error());
  return PrefetchLane(std::make_unique<PrefetchEngine>(client.clock(), options, page_bytes,
                                                       std::move(*lane), std::move(*transfers),
                                                       std::move(prefetcher)));
}

PrefetchLane::PrefetchLane(std::unique_ptr<PrefetchEngine> engine) : engine_(std::move(engine)) {}
PrefetchLane::PrefetchLane(PrefetchLane&&) noexcept = default;
PrefetchLane& PrefetchLane::operator=(PrefetchLane&&) noexcept = default;
PrefetchLane::~PrefetchLane() = default;

void PrefetchLane::observe(std::span<const ObservedAccess> accesses) {
  engine_->ahead().observe(accesses);
}
float PrefetchLane::importance(const PageKey& key) const {
  return engine_->ahead().importance(key);
}
void PrefetchLane::mark_milestone(const PageKey& key) {
  engine_->ahead().mark_milestone(key);
}
void PrefetchLane::announce(std::span<const PageKey> keys, uint64_t until_ns) {
  engine_->ahead().announce(keys, until_ns);
}
void PrefetchLane::withdraw(std::span<const PageKey> keys) {
  engine_->ahead().withdraw(keys);
}
void PrefetchLane::set_near(std::span<const PageKey> keys, bool is_near) {
  engine_->ahead().set_near(keys, is_near);
}
PageAhead PrefetchLane::look(const PageKey& key) const {
  return engine_->ahead().look(key);
}
void PrefetchLane::evict(std::span<const PageKey> keys) {
  engine_->ahead().evict(keys);
}
DemandFetch PrefetchLane::fetch(std::span<const PageRequest> requests,
                                std::span<PageVerdict> verdicts, uint64_t deadline_ns,
                                const DemandOptions& options) {
  return DemandFetch(engine_.get(), engine_->start(requests, verdicts, deadline_ns, options));
}
bool PrefetchLane::progress() {
  return engine_->progress();
}
void PrefetchLane::wait(uint64_t until_ns) {
  engine_->wait(until_ns);
}
void PrefetchLane::allow_interrupts() {
  engine_->allow_interrupts();
}
void PrefetchLane::interrupt() {
  engine_->interrupt();
}
LaneStats PrefetchLane::demand_stats() const {
  return engine_->demands().stats();
}
LaneStats PrefetchLane::prefetch_stats() const {
  return engine_->ahead().stats();
}
size_t PrefetchLane::taken_places() const {
  return engine_->ahead().taken_places();
}
PrefetchReport PrefetchLane::report() const {
  PrefetchReport report = engine_->ahead().report();
  engine_->demands().add_to(report);
  return report;
}

DemandFetch::DemandFetch(DemandFetch&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      state_(std::exchange(other.state_, nullptr)) {}
DemandFetch& DemandFetch::operator=(DemandFetch&& other) noexcept {
  std::swap(engine_, other.engine_);
  std::swap(state_, other.state_);
  return *this;
}
DemandFetch::~DemandFetch() {
  if (state_ != nullptr) engine_->demands().recycle(state_);
}
bool DemandFetch::done() const {
  return state_->done();
}
bool DemandFetch::released() const {
  return state_->released();
}
void DemandFetch::wait() {
  engine_->wait_done(*state_);
}
bool DemandFetch::wait_released(uint64_t deadline_ns) {
  return engine_->wait_released(*state_, deadline_ns);
}

}  // namespace farpage
