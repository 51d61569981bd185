#include "client/farpage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace farpage {
namespace {

auto too_many(const char* what) {
  return fail(Code::kExhausted,
              fmt::format("there are too many tickets of {}: let go of one that is done, or raise "
                          "client.queue_depth",
                          what));
}

}  // namespace

Result<std::unique_ptr<Farpage>> Farpage::open(const OpenOptions& options) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  auto connection = Connection::open(options);
  if (!connection) return tl::unexpected(connection.error());
  auto made = std::unique_ptr<Farpage>(new Farpage);
  made->connection_ = std::move(*connection);
  Client& client = made->client();
  for (uint64_t i = 0; i < options.lanes.lanes; ++i) {
    auto lane = LaneRunner::start(client, options.lanes.queue_depth);
    if (!lane) return tl::unexpected(lane.error());
    made->lanes_.push_back(std::move(*lane));
  }
  made->writes_ = std::make_unique<WriteRunner>(client, made->connection_->runtime(),
                                                options.lanes.queue_depth);
  return made;
}

Farpage::~Farpage() = default;

Result<Region> Farpage::register_memory(std::span<std::byte> memory) {
  return client().register_memory({memory.data(), memory.size()});
}

uint64_t Farpage::deadline_ns(uint64_t timeout_us) const {
  const uint64_t now = clock().now_ns();
  return timeout_us < (kNever - now) / kMicrosecond ? now + timeout_us * kMicrosecond : kNever;
}

Result<Ticket> Farpage::fetch(std::span<const PageRequest> requests, uint64_t timeout_us,
                              const FetchOptions& options, const Notification& notification) {
  const uint32_t first = next_lane_.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < lanes_.size(); ++i) {
    LaneRunner& lane = *lanes_[(first + i) % lanes_.size()];
    Submission* submission = lane.pool()->take();
    if (submission == nullptr) continue;
    submission->kind = SubmissionKind::kFetch;
    submission->requests.assign(requests.begin(), requests.end());
    submission->options = options;
    submission->deadline_ns = deadline_ns(timeout_us);
    submission->notification = notification;
    Ticket ticket(lane.pool(), *submission);
    lane.submit(*submission);
    return ticket;
  }
  return too_many("fetches");
}

Result<Ticket> Farpage::put(std::span<const PutRequest> requests, uint64_t timeout_us,
                            const Notification& notification) {
  Submission* submission = writes_->pool()->take();
  if (submission == nullptr) return too_many("puts and removes");
  submission->kind = SubmissionKind::kPut;
  submission->puts.assign(requests.begin(), requests.end());
  submission->deadline_ns = deadline_ns(timeout_us);
  submission->notification = notification;
  Ticket ticket(writes_->pool(), *submission);
  writes_->submit(*submission);
  return ticket;
}

Result<Ticket> Farpage::remove(std::span<const PageKey> keys, uint64_t timeout_us,
                               const Notification& notification) {
  Submission* submission = writes_->pool()->take();
  if (submission == nullptr) return too_many("puts and removes");
  submission->kind = SubmissionKind::kRemove;
  submission->keys.assign(keys.begin(), keys.end());
  submission->deadline_ns = deadline_ns(timeout_us);
  submission->notification = notification;
  Ticket ticket(writes_->pool(), *submission);
  writes_->submit(*submission);
  return ticket;
}

Result<uint64_t> Farpage::leading(std::span<const PageKey> keys, uint64_t timeout_us) {
  std::vector<PageRequest> requests(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) requests[i].key = keys[i];
  const auto ticket = fetch(requests, timeout_us);
  if (!ticket) return tl::unexpected(ticket.error());
  ticket->wait();
  const auto verdicts = ticket->verdicts();
  const auto missing = std::ranges::find_if(
      verdicts, [](const PageVerdict& verdict) { return verdict.verdict != Verdict::kReady; });
  return static_cast<uint64_t>(missing - verdicts.begin());
}

uint64_t Farpage::page_bytes() const {
  return connection_->client().page_bytes();
}

}  // namespace farpage
