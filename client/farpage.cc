#include "client/farpage.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/memory/protection.h"
#include "client/destinations.h"
#include "client/gpu/gpu_runners.h"
#include "client/gpu/stream_fence.h"
#include "client/runner/deadline.h"
#include "control/status/status_table.h"
#include "net/runtime/thrown.h"

namespace farpage {
namespace {

constexpr uint64_t kAttempts = 4;  // to open a named node, in the time that it has
constexpr uint64_t kPauseNs = 10 * kMillisecond;

// A ticket keeps its place until it goes: to wait for one frees none.
auto too_many(const char* what) {
  return fail(Code::kExhausted,
              fmt::format("tickets of {} have all places, done or not: free one that is done, or "
                          "raise client.queue_depth",
                          what));
}

auto for_fetches_alone() {
  return fail(Code::kInvalid, "a fence is for fetches alone: give this operation none");
}

// One of the pool's that goes back to it, unless it is submitted: what fills it may throw.
struct GiveBack {
  SubmissionPool* pool;
  void operator()(Submission* submission) const { pool->give_back(*submission); }
};
using Taken = std::unique_ptr<Submission, GiveBack>;

// What a runner is to carry out, beside what the kind of it needs.
struct Order {
  SubmissionKind kind;
  uint64_t deadline_ns = kNever;
  Notification notification = {};
};

// `fill` gives it what it needs. False: all of the runner's submissions are in use.
template <typename Runner, typename Fill, typename Filled>
bool submit(Runner& runner, const Order& order, const Fill& fill, const Filled& filled) {
  Taken taken(runner.pool()->take(), {runner.pool().get()});
  if (taken == nullptr) return false;
  taken->kind = order.kind;
  taken->deadline_ns = order.deadline_ns;
  taken->notification = order.notification;
  fill(*taken);
  Submission& submission = *taken.release();
  filled(submission);
  runner.submit(submission);
  return true;
}

template <typename Runner, typename Fill>
std::optional<Ticket> submit(Runner& runner, const Order& order, const Fill& fill) {
  std::optional<Ticket> ticket;
  submit(runner, order, fill,
         [&](Submission& submission) { ticket.emplace(runner.pool(), submission); });
  return ticket;
}

}  // namespace

Result<std::unique_ptr<Farpage>> Farpage::open(const OpenOptions& options) {
  return open_over(options, {});
}

Result<std::unique_ptr<Farpage>> Farpage::open_over(const OpenOptions& options,
                                                    const Connection::WrapFabric& wrap) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  const bool may_move = options.embedded && !options.embedded_node.name.empty();
  try {
    return may_move ? open_moving(options, wrap) : open_valid(options, wrap);
  } catch (const std::system_error& thrown) {
    return fail_thrown(thrown);
  }
}

// The process that has the named node may be ending: then this one, or another, has it next.
Result<std::unique_ptr<Farpage>> Farpage::open_moving(const OpenOptions& options,
                                                      const Connection::WrapFabric& wrap) {
  const Clock& clock = boottime_clock();
  const uint64_t until_ns = clock.now_ns() + options.client.connect_ms * kMillisecond;
  OpenOptions attempt = options;
  attempt.client.connect_ms = std::max<uint64_t>(options.client.connect_ms / kAttempts, 1);
  while (true) {
    auto opened = open_valid(attempt, wrap);
    if (opened || clock.now_ns() >= until_ns) return opened;
    const Code code = opened.error().code;
    if (code == Code::kInvalid || code == Code::kDenied) return opened;
    std::this_thread::sleep_for(std::chrono::nanoseconds(kPauseNs));
  }
}

Result<std::unique_ptr<Farpage>> Farpage::open_valid(const OpenOptions& options,
                                                     const Connection::WrapFabric& wrap) {
  auto connection = Connection::open(options, wrap);
  if (!connection) return tl::unexpected(connection.error());
  auto made = std::unique_ptr<Farpage>(new Farpage);
  made->connection_ = std::move(*connection);
  Client& client = made->client();
  for (uint64_t i = 0; i < options.lanes.lanes; ++i) {
    auto lane = LaneRunner::start(client, options.lanes);
    if (!lane) return tl::unexpected(lane.error());
    made->lanes_.push_back(std::move(*lane));
  }
  if (options.ahead.is_on()) {
    auto ahead = AheadRunner::start(client, options.lanes, options.ahead);
    if (!ahead) return tl::unexpected(ahead.error());
    made->ahead_ = std::move(*ahead);
    made->linger_us_ = options.ahead.linger_ms * 1'000;
  }
  made->writes_ = std::make_unique<WriteRunner>(client, options.lanes);
  made->gpus_ = std::make_unique<GpuRunners>(client, *made->writes_, options.lanes, options.gpu);
  return made;
}

Farpage::~Farpage() = default;

Result<Region> Farpage::register_memory(std::span<std::byte> memory) {
  // What a lane writes to later, and this process may not, would end it.
  const auto protection = protection_of(memory.data(), memory.size());
  if (!protection) return tl::unexpected(protection.error());
  if (*protection != Protection::kReadWrite) {
    return fail(Code::kInvalid,
                fmt::format("some of the {} bytes at {} may not be written: register memory that "
                            "pages can be fetched into",
                            memory.size(), fmt::ptr(memory.data())));
  }
  return client().register_memory({memory.data(), memory.size()});
}

Result<Region> Farpage::register_gpu_memory(uint64_t address, uint64_t bytes) {
  return gpus_->register_memory(address, bytes);
}

Result<Region> Farpage::register_gpu_blocks(const cuda::GpuBlocks& blocks) {
  return gpus_->register_blocks(blocks);
}

// The lane with the least to do, and of such lanes the one that was used last: its thread is awake.
LaneRunner& Farpage::least_busy() {
  const uint32_t last = last_lane_.load(std::memory_order_relaxed);
  uint32_t least = last;
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i]->under_way() < lanes_[least]->under_way()) least = i;
  }
  if (least != last) last_lane_.store(least, std::memory_order_relaxed);
  return *lanes_[least];
}

// One that the thread of some lane carries out.
template <typename Fill>
Result<Ticket> Farpage::read(SubmissionKind kind, uint64_t timeout_us,
                             const Notification& notification, const Fill& fill) {
  const Order order = {kind, deadline_after(clock(), timeout_us), notification};
  if (auto ticket = submit(least_busy(), order, fill)) return std::move(*ticket);
  // Tickets that are done, and still about, may have all of its places.
  for (const auto& lane : lanes_) {
    if (auto ticket = submit(*lane, order, fill)) return std::move(*ticket);
  }
  return too_many("fetches and questions");
}

template <typename Fill>
Result<Ticket> Farpage::move_on_gpu(SubmissionKind kind, MemoryPlace place, uint64_t timeout_us,
                                    const Notification& notification, const Fill& fill) {
  GpuRunner* const runner = gpus_->of(place.device);
  if (runner == nullptr) {
    return fail(Code::kInvalid, fmt::format("no {} is registered with this client: register it "
                                            "with register_gpu_memory() or register_gpu_blocks()",
                                            place_name(place)));
  }
  const uint64_t deadline_ns = deadline_after(clock(), timeout_us);
  auto ticket = submit(*runner, {kind, deadline_ns, notification}, fill);
  if (!ticket) return too_many("fetches and puts of this GPU's memory");
  return std::move(*ticket);
}

Result<std::shared_ptr<StreamFence>> Farpage::make_fence(int device, uint32_t most_pages) {
  auto made = gpus_->make_fence(device, most_pages);
  if (!made) return made;
  const std::lock_guard lock(fences_.mutex);
  std::erase_if(fences_.made, [](const auto& fence) { return fence.expired(); });
  fences_.made.push_back(*made);
  return made;
}

Farpage::Fences::~Fences() {
  for (const auto& fence : made) {
    if (const auto left = fence.lock()) left->fence().clear();
  }
}

// A fetch that cannot begin counts as one whose pages are all to be computed: a graph that is
// replayed all the same goes on, and finds no page ready.
Result<Ticket> Farpage::fetch(std::span<const PageRequest> requests, uint64_t timeout_us,
                              const FetchOptions& options, const Notification& notification) {
  if (notification.fence == nullptr)
    return begin_fetch(requests, timeout_us, options, notification);
  if (auto begun = notification.fence->begin(requests.size()); !begun) {
    return tl::unexpected(begun.error());
  }
  struct GiveUp {
    void operator()(Fence* fence) const { fence->decide({}); }
  };
  std::unique_ptr<Fence, GiveUp> undecided(notification.fence);
  if (deadline_after(clock(), timeout_us) == kNever) {
    return fail(
        Code::kInvalid,
        "a fetch with a fence has no deadline, and a stream would wait without end: give it "
        "a timeout");
  }
  auto ticket = begin_fetch(requests, timeout_us, options, notification);
  if (ticket) static_cast<void>(undecided.release());  // the client's thread decides
  return ticket;
}

Result<Ticket> Farpage::begin_fetch(std::span<const PageRequest> requests, uint64_t timeout_us,
                                    const FetchOptions& options, const Notification& notification) {
  if (options.hedge) {
    return fail(Code::kInvalid,
                "a hedge may land in memory of a lane's own: drive a lane of client() for hedges");
  }
  if (auto apart = require_apart(requests); !apart) return tl::unexpected(apart.error());
  const auto place = place_of(requests);
  if (!place) return tl::unexpected(place.error());
  const auto fill = [&](Submission& submission) {
    submission.requests.assign(requests.begin(), requests.end());
    submission.options = options;
  };
  if (!place->is_host()) {
    return move_on_gpu(SubmissionKind::kFetch, *place, timeout_us, notification, fill);
  }
  if (ahead_ == nullptr) return read(SubmissionKind::kFetch, timeout_us, notification, fill);
  const uint64_t deadline_ns = deadline_after(clock(), timeout_us);
  auto ticket = submit(*ahead_, {SubmissionKind::kFetch, deadline_ns, notification}, fill);
  if (!ticket) return too_many("fetches");
  return std::move(*ticket);
}

Result<Ticket> Farpage::exists(std::span<const PageKey> keys, uint64_t timeout_us,
                               const Notification& notification) {
  if (notification.fence != nullptr) return for_fetches_alone();
  // The memory for its answers, too: the lane has no time to make so much at once.
  return read(SubmissionKind::kExists, timeout_us, notification, [&](Submission& submission) {
    submission.keys.assign(keys.begin(), keys.end());
    submission.answers.resize(keys.size());
    submission.verdicts.resize(keys.size());
  });
}

// What is fetched ahead follows it.
template <typename Fill>
Result<void> Farpage::hint(SubmissionKind kind, uint64_t until_ns, const Fill& fill) {
  if (ahead_ == nullptr) {
    return fail(Code::kInvalid,
                "this client fetches no pages ahead: set ahead.pages to how many of them it keeps "
                "memory for");
  }
  const bool is_taken = submit(*ahead_, {kind, until_ns}, fill, [](Submission&) {});
  if (is_taken) return {};
  return fail(Code::kExhausted,
              "tickets of fetches, and what was said before and is not heard yet, have all of the "
              "thread's places: free tickets that are done and say it again, or raise "
              "client.queue_depth");
}

Result<void> Farpage::announce(std::span<const PageKey> keys, uint64_t wanted_in_us) {
  const uint64_t in_us = wanted_in_us + std::min(linger_us_, UINT64_MAX - wanted_in_us);
  return hint(SubmissionKind::kAnnounce, deadline_after(clock(), in_us),
              [&](Submission& submission) { submission.keys.assign(keys.begin(), keys.end()); });
}

Result<void> Farpage::withdraw(std::span<const PageKey> keys) {
  return hint(SubmissionKind::kWithdraw, kNever,
              [&](Submission& submission) { submission.keys.assign(keys.begin(), keys.end()); });
}

Result<void> Farpage::mark_milestones(std::span<const PageKey> keys) {
  return hint(SubmissionKind::kMarkMilestones, kNever,
              [&](Submission& submission) { submission.keys.assign(keys.begin(), keys.end()); });
}

Result<void> Farpage::observe(std::span<const ObservedAccess> accesses) {
  return hint(SubmissionKind::kObserve, kNever, [&](Submission& submission) {
    submission.accesses.assign(accesses.begin(), accesses.end());
  });
}

// One that the thread for writes carries out.
template <typename Fill>
Result<Ticket> Farpage::write(SubmissionKind kind, uint64_t timeout_us,
                              const Notification& notification, const Fill& fill) {
  auto ticket = submit(*writes_, {kind, deadline_after(clock(), timeout_us), notification}, fill);
  if (!ticket) return too_many("puts and removes");
  return std::move(*ticket);
}

Result<Ticket> Farpage::put(std::span<const PutRequest> requests, uint64_t timeout_us,
                            const Notification& notification) {
  return begin_put(requests, nullptr, timeout_us, notification);
}

Result<Ticket> Farpage::put_behind(cuda::Stream stream, std::span<const PutRequest> requests,
                                   uint64_t timeout_us, const Notification& notification) {
  return begin_put(requests, &stream, timeout_us, notification);
}

// `stream`: null: behind none.
Result<Ticket> Farpage::begin_put(std::span<const PutRequest> requests, const cuda::Stream* stream,
                                  uint64_t timeout_us, const Notification& notification) {
  if (notification.fence != nullptr) return for_fetches_alone();
  const auto place = place_of(requests);
  if (!place) return tl::unexpected(place.error());
  std::shared_ptr<const cuda::RecordedEvent> behind;
  const auto fill = [&](Submission& submission) {
    submission.puts.assign(requests.begin(), requests.end());
    submission.behind = behind;
  };
  if (place->is_host() && stream == nullptr) {
    return write(SubmissionKind::kPut, timeout_us, notification, fill);
  }
  if (place->is_host()) {
    return fail(Code::kInvalid,
                "the pages are in host memory: a put waits for a stream of the GPU alone that "
                "its pages lie in");
  }
  if (stream != nullptr && gpus_->of(place->device) != nullptr) {
    auto recorded = gpus_->record(place->device, *stream);
    if (!recorded) return tl::unexpected(recorded.error());
    behind = std::move(*recorded);
  }
  return move_on_gpu(SubmissionKind::kPut, *place, timeout_us, notification, fill);
}

Result<Ticket> Farpage::remove(std::span<const PageKey> keys, uint64_t timeout_us,
                               const Notification& notification) {
  if (notification.fence != nullptr) return for_fetches_alone();
  return write(SubmissionKind::kRemove, timeout_us, notification,
               [&](Submission& submission) { submission.keys.assign(keys.begin(), keys.end()); });
}

Result<void> Farpage::flush(uint64_t timeout_us) {
  const Order order = {SubmissionKind::kFlush, deadline_after(clock(), timeout_us)};
  std::vector<Ticket> tickets;
  bool are_begun = true;
  const auto flush = [&](auto& runner) {
    auto ticket = submit(runner, order, [](Submission&) {});
    are_begun &= ticket.has_value();
    if (ticket) tickets.push_back(std::move(*ticket));
  };
  gpus_->for_each(flush);
  flush(*writes_);
  if (!are_begun) return too_many("puts and removes");
  for (const Ticket& ticket : tickets) ticket.wait();
  const auto is_over = [](const Ticket& ticket) { return ticket.code() == Code::kOk; };
  if (std::ranges::all_of(tickets, is_over)) return {};
  return fail(Code::kTimeout, "puts or removes have no result yet: flush again, with more time");
}

Result<uint64_t> Farpage::leading(std::span<const PageKey> keys, uint64_t timeout_us) {
  const auto ticket = exists(keys, timeout_us);
  if (!ticket) return tl::unexpected(ticket.error());
  ticket->wait();
  const auto verdicts = ticket->verdicts();
  const auto hole = std::ranges::find_if(
      verdicts, [](const PageVerdict& verdict) { return verdict.verdict != Verdict::kReady; });
  return static_cast<uint64_t>(hole - verdicts.begin());
}

Statistics Farpage::statistics() const {
  Statistics sum;
  const auto add_tickets = [&](const auto& runner, uint64_t& free) {
    const SubmissionPool::Use use = runner.pool()->use();
    free += use.free;
    sum.under_way += use.under_way;
  };
  uint64_t lane_tickets_free = 0;
  for (const auto& lane : lanes_) {
    add_up(sum.verdicts, lane->driver().verdicts());
    add_tickets(*lane, lane_tickets_free);
  }
  sum.fetch_tickets_free = lane_tickets_free;
  if (ahead_ != nullptr) {
    const AheadCounts counts = ahead_->driver().counts();
    add_up(sum.verdicts, counts.verdicts);
    sum.near = counts.near;
    sum.fetched_ahead = counts.fetched;
    sum.ahead_places = counts.places;
    sum.fetch_tickets_free = 0;
    add_tickets(*ahead_, sum.fetch_tickets_free);
  }
  gpus_->for_each([&](GpuRunner& runner) {
    add_up(sum.verdicts, runner.driver().verdicts());
    sum.under_way += runner.pool()->use().under_way;
  });
  add_tickets(*writes_, sum.put_tickets_free);
  sum.puts_acknowledged = connection_->client().puts_acknowledged();
  sum.puts_failed = connection_->client().puts_failed();
  return sum;
}

uint64_t Farpage::page_bytes() const {
  return connection_->client().page_bytes();
}

}  // namespace farpage
