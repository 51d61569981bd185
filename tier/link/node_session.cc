#include "tier/link/node_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "control/status/status_table.h"
#include "tier/link/source_offers.h"

namespace farpage {
namespace {

constexpr uint64_t kFirstPauseNs = 10 * kMillisecond;
constexpr uint64_t kLongestPauseNs = 500 * kMillisecond;
// So long a node that was lost may be back at once. One that is there answers in a fraction of it;
// one that is stopped takes the connection, and answers nothing.
constexpr uint64_t kReturnNs = 500 * kMillisecond;
constexpr uint64_t kRenewalsPerLease = 4;
constexpr uint64_t kClockLooksPerLease = 8;
constexpr uint64_t kIdleRenewalsPerLease = 2;  // of a client that has fetched nothing meanwhile
// So that a dial that lasts to its own deadline can still say what it waited for.
constexpr uint64_t kNodeLastWordNs = 100 * kMillisecond;
constexpr uint64_t kTellAgainNs = 30 * kSecond;  // what a person has to mend
constexpr uint64_t kMaxReportBytes = kMiB;       // that a node has to look at for one report

Error to_error(const Reply& reply) {
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return {refusal->code, refusal->message};
  return {Code::kProtocol, "the node answered with a message of another kind"};
}

}  // namespace

NodeSession::NodeSession(const ClientOptions& options, Runtime& runtime, Fabric& fabric,
                         std::shared_ptr<FabricGate> gate, ControlDialer& dialer,
                         HelloExpectations terms, std::shared_ptr<ClientCounters> counters,
                         std::shared_ptr<ClientSources> sources)
    : options_(options),
      runtime_(runtime),
      fabric_(fabric),
      backend_(fabric.capabilities().backend),
      gate_(std::move(gate)),
      dialer_(dialer),
      terms_(std::move(terms)),
      counters_(std::move(counters)),
      sources_(std::move(sources)) {}

bool NodeSession::start() {
  if (!used_.load(std::memory_order_relaxed)) used_ = true;
  Phase unused = Phase::kUnused;
  if (phase_ != unused || !phase_.compare_exchange_strong(unused, Phase::kComing)) return false;
  dial(0);
  return true;
}

Result<void> NodeSession::connect() {
  const uint64_t deadline = runtime_.clock().now_ns() + options_.connect_ms * kMillisecond;
  start();
  runtime_.wait_until(deadline, [this] {
    std::lock_guard lock(mutex_);
    return view() != nullptr || refused_;
  });
  runtime_.wait_until(deadline + kNodeLastWordNs, [this] {
    std::lock_guard lock(mutex_);
    return view() != nullptr || last_error_;
  });
  std::lock_guard lock(mutex_);
  if (view() != nullptr) return {};
  if (last_error_) return tl::unexpected(*last_error_);
  return fail(Code::kTimeout,
              fmt::format("the node has not answered for {} ms (client.connect_ms): is it stopped?",
                          options_.connect_ms));
}

void NodeSession::stop() {
  say_goodbye();
  std::shared_ptr<View> view;
  std::shared_ptr<View> opening;
  std::shared_ptr<ControlLink> greeting;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    returning_until_ns_ = 0;
    view = view_.publish(nullptr);
    std::swap(opening, opening_);
    std::swap(greeting, greeting_);
  }
  phase_ = Phase::kTried;
  runtime_.notify();  // who waits for the dial
}

// With the verdicts since the last renewal; no caller waits for an answer.
void NodeSession::say_goodbye() {
  const std::shared_ptr<View> last = view();
  if (last == nullptr) return;
  last->link->call(RenewRequest{last->incarnation, verdicts_of(*last)},
                   [](const Result<Reply>&) {});
}

// Counts that this run was told, and counts that no node was told yet. A view that is not the
// newest tells nothing: the newest one does.
VerdictCounts NodeSession::verdicts_of(View& view) {
  const std::lock_guard lock(mutex_);
  if (view_.get().get() != &view) return {};
  add_up(view.told, counters_->take_untold());
  return view.told;
}

std::optional<Error> NodeSession::error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

std::string NodeSession::why_unreached() const {
  const auto current = view();
  if (current != nullptr && current->connected && current->valid(runtime_.clock().now_ns()))
    return "";
  const auto why = error();
  return why ? name() + " is not reached: " + why->message : "";
}

void NodeSession::dial(uint64_t delay_ns) {
  runtime_.after(delay_ns, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (self == nullptr) return;
    // Under the lock: once stop() has returned, the dialer may go.
    std::lock_guard lock(self->mutex_);
    if (self->stopped_) return;
    self->dialer_.dial([weak](Result<std::shared_ptr<ControlLink>> link) {
      auto alive = weak.lock();
      if (alive == nullptr) return;
      if (!link) return alive->failed(link.error());
      alive->say_hello(*link);
    });
  });
}

void NodeSession::say_hello(const std::shared_ptr<ControlLink>& link) {
  const uint64_t sent = runtime_.clock().now_ns();
  hello_gap_ = ClockGap::of(runtime_);
  HelloRequest hello;
  hello.staging_bytes = options_.staging_bytes;
  hello.node = terms_.self;
  hello.incarnation = terms_.incarnation;
  hello.facts = options_.facts;
  if (terms_.epoch) hello.epoch = terms_.epoch();
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    greeting_ = link;
    hello.known_epoch = known_run_.epoch;
    hello.known_incarnation = known_run_.incarnation;
  }
  link->call(hello, [weak = weak_from_this(), sent](Result<Reply> reply) {
    if (auto self = weak.lock()) self->greeted(sent, std::move(reply));
  });
  runtime_.after(options_.connect_ms * kMillisecond,
                 [weak = weak_from_this(), waiting = std::weak_ptr(link)] {
                   auto self = weak.lock();
                   if (self != nullptr) self->drop_greeting(waiting.lock());
                 });
}

void NodeSession::drop_greeting(const std::shared_ptr<ControlLink>& link) {
  {
    std::lock_guard lock(mutex_);
    if (link == nullptr || greeting_ != link) return;
    greeting_.reset();
  }
  failed({Code::kTimeout,
          fmt::format("the node has not answered for {} ms (client.connect_ms): is it stopped?",
                      options_.connect_ms)});
}

void NodeSession::greeted(uint64_t sent_ns, Result<Reply> reply) {
  std::shared_ptr<ControlLink> link;
  {
    std::lock_guard lock(mutex_);
    std::swap(link, greeting_);
  }
  if (link == nullptr) return;
  if (!reply) return failed(reply.error());
  auto* hello = std::get_if<HelloReply>(&*reply);
  if (hello == nullptr) return failed(to_error(*reply));
  auto view = make_view(link, sent_ns, *hello);
  if (!view) return failed(view.error());
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    opening_ = *view;
  }
  // The lease is kept alive while the staging is connected, however long that takes.
  renew(*view);
  watch_lease(*view);
  if (terms_.self != 0) return opened(*view, nullptr);
  open_staging(*view, std::move(*hello));
}

namespace {

// The last owner, a lane or the runtime, does not wait for its channel's end.
std::shared_ptr<Staging> share(std::unique_ptr<Staging> staging, Runtime& runtime,
                               const std::shared_ptr<FabricGate>& gate) {
  return {staging.release(), [&runtime, gate](Staging* last) {
            std::shared_ptr<Staging> ending(last);
            if (gate->closed()) return;  // once the client goes, so may the runtime
            runtime.offload(JobClass::kDispose,
                            [ending = std::move(ending)]() mutable { ending.reset(); });
          }};
}

}  // namespace

// Connecting over a network blocks.
void NodeSession::open_staging(const std::shared_ptr<View>& view, HelloReply reply) {
  reply.staging_offer.peer = view->link->peer();
  const uint64_t deadline = runtime_.clock().now_ns() + options_.connect_ms * kMillisecond;
  // Shared, because std::function needs what can be copied.
  runtime_.offload(
      JobClass::kConnect, [&runtime = runtime_, gate = gate_, weak = weak_from_this(), deadline,
                           reuse_ns = view->reuse_ns, weak_view = std::weak_ptr(view),
                           hello = std::make_shared<HelloReply>(std::move(reply))] {
        auto made = gate->pass([&](Fabric& fabric) {
          return Staging::connect(fabric, std::move(hello->staging_offer),
                                  std::move(hello->staging), runtime.clock(), reuse_ns, deadline);
        });
        const auto staging = std::move(made).map([&](std::unique_ptr<Staging> staging) {
          return share(std::move(staging), runtime, gate);
        });
        runtime.after(0, [weak, weak_view, staging] {
          auto self = weak.lock();
          auto waiting = weak_view.lock();
          if (self != nullptr && waiting != nullptr) self->opened(waiting, staging);
        });
      });
}

void NodeSession::opened(const std::shared_ptr<View>& view,
                         const Result<std::shared_ptr<Staging>>& staging) {
  std::shared_ptr<View> previous;
  {
    std::lock_guard lock(mutex_);
    if (opening_ != view) return;  // lost or stopped meanwhile
    opening_.reset();
    if (staging) {
      view->staging = *staging;
      page_bytes_.store(view->geometry.page_bytes, std::memory_order_release);
      previous = view_.publish(view);
      returning_until_ns_.store(kNever, std::memory_order_release);
      if (terms_.fixed) known_run_ = {view->epoch, view->incarnation};
      dialing_ = refused_ = false;
      last_error_.reset();
    }
  }
  if (!staging) return failed(staging.error());
  previous.reset();  // not under the lock: with it may go its link, which calls back
  pause_ns_ = 0;
  used_ns_ = runtime_.clock().now_ns();
  phase_.store(Phase::kTried, std::memory_order_release);  // after what a caller then looks for
  runtime_.notify();
  offer_sources();
}

void NodeSession::offer_sources() {
  if (const auto current = view()) farpage::offer_sources(current, *sources_);
}

void NodeSession::withdraw_source(uint32_t source) {
  if (const auto current = view()) farpage::withdraw_source(*current, source);
}

Result<std::shared_ptr<View>> NodeSession::make_view(const std::shared_ptr<ControlLink>& link,
                                                     uint64_t sent_ns, const HelloReply& reply) {
  if (auto valid = check_hello(reply, terms_, backend_); !valid)
    return tl::unexpected(valid.error());
  if (terms_.fixed) {
    std::lock_guard lock(mutex_);
    if (goes_back(known_run_, {reply.epoch, reply.incarnation})) {
      return fail(Code::kProtocol,
                  gone_back(std::max(known_run_.epoch, newest_epoch()), reply.epoch));
    }
  }
  auto view = std::make_shared<View>(std::min(reply.sources, kMaxSources));
  view->epoch = reply.epoch;
  view->incarnation = reply.incarnation;
  view->reuse_ns = reply.reuse_ns;
  view->lease_ns = reply.lease_ns;
  view->geometry = {reply.page_bytes, reply.slots, reply.buckets,
                    static_cast<SlotLayout>(std::min<uint32_t>(reply.slot_layout, UINT8_MAX))};
  view->link = link;
  view->valid_until_ns = sent_ns + reply.lease_ns;
  view->gap = hello_gap_;
  if (auto valid = validate(view->geometry); !valid) return tl::unexpected(valid.error());
  if (!locations_) {
    const uint64_t pages = options_.location_pages == 0 ? reply.slots : options_.location_pages;
    auto locations = LocationCache::create(pages);
    if (!locations) return tl::unexpected(locations.error());
    locations_ = std::move(*locations);
    page_reports_ = std::make_unique<PageReports>();
  }
  hear_of(std::max(reply.epoch, reply.newest_epoch));
  return view;
}

void NodeSession::renew(const std::weak_ptr<View>& weak_view) {
  auto view = weak_view.lock();
  if (view == nullptr) return;
  const uint64_t sent = runtime_.clock().now_ns();
  const ClockGap gap = ClockGap::of(runtime_);
  const VerdictCounts verdicts = verdicts_of(*view);
  const bool idle = verdicts.fetches == renewed_fetches_;
  renewed_fetches_ = verdicts.fetches;
  const uint64_t pause = view->lease_ns / (idle ? kIdleRenewalsPerLease : kRenewalsPerLease);
  view->link->call(
      RenewRequest{view->incarnation, verdicts},
      [weak = weak_from_this(), weak_view, sent, gap, pause](Result<Reply> reply) {
        auto self = weak.lock();
        auto renewed = weak_view.lock();
        if (self == nullptr || renewed == nullptr) return;
        auto* answer = reply ? std::get_if<RenewReply>(&*reply) : nullptr;
        if (answer == nullptr || answer->incarnation != renewed->incarnation) {
          return self->lost(renewed);
        }
        if (self->end_if_held(*renewed)) return self->lost(renewed);
        renewed->renew(sent + renewed->lease_ns);
        renewed->gap = gap;
        if (self->terms_.told && answer->epoch.number != 0) {
          self->terms_.told({answer->epoch, answer->view_age_ns, sent, gap, renewed->link});
        }
        if (self->goes_to_rest(renewed)) return self->rest(*renewed);
        self->runtime_.after(pause, [weak, weak_view] {
          if (auto again = weak.lock()) again->renew(weak_view);
        });
      });
}

// Who comes for the link meanwhile either is seen here, or finds it unused. Members keep theirs: by
// them they see each other.
bool NodeSession::goes_to_rest(const std::shared_ptr<View>& view) {
  const uint64_t now_ns = runtime_.clock().now_ns();
  if (used_.exchange(false) || under_way_ > 0) used_ns_ = now_ns;
  const uint64_t rest_ns = options_.rest_ms * kMillisecond;
  if (terms_.self != 0 || rest_ns == 0 || now_ns - used_ns_ < rest_ns) return false;
  if (terms_.may_rest && !terms_.may_rest()) return false;
  {
    const std::lock_guard lock(mutex_);
    if (this->view() != view || dialing_) return false;
  }
  phase_ = Phase::kUnused;
  if (!used_) return true;
  Phase unused = Phase::kUnused;
  return !phase_.compare_exchange_strong(unused, Phase::kTried);
}

// With the connection ends the session at the node: its lanes, and the staging. The renewal that
// was just answered has told the verdicts.
void NodeSession::rest(View& view) {
  std::shared_ptr<View> ended;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    dialing_ = true;
    returning_until_ns_ = 0;
    view.connected = false;
    view.valid_until_ns = 0;
    ended = view_.publish(nullptr);
  }
  counters_->link_rests();
  runtime_.notify();
  view.link->close();
}

// A node that is silent, because it is stopped or its network is down, is known by our own clock.
// A network that is back would else be found by TCP's timers alone, which wait for minutes. The gap
// to the wall clock may tell what that clock does not.
void NodeSession::watch_lease(const std::weak_ptr<View>& weak_view) {
  auto view = weak_view.lock();
  if (view == nullptr) return;
  const uint64_t now = runtime_.clock().now_ns();
  if (end_if_held(*view) || !view->valid(now)) {
    view->link->close();  // who waits for an answer, a put say, need not
    return lost(view);
  }
  const uint64_t look_ns = std::max<uint64_t>(1, view->lease_ns / kClockLooksPerLease);
  runtime_.after(std::min(view->valid_until_ns - now, look_ns),
                 [weak = weak_from_this(), weak_view] {
                   if (auto self = weak.lock()) self->watch_lease(weak_view);
                 });
}

bool NodeSession::end_if_held(View& view) {
  const uint64_t held = ClockGap::held_ns(runtime_, view.gap, view.lease_ns);
  if (held == 0) return false;
  if (view.valid(runtime_.clock().now_ns())) counters_->lease_ended_held(held);
  view.valid_until_ns = 0;
  return true;
}

void NodeSession::report(const PageKey& key) {
  if (!page_reports_->add(key, runtime_.clock().now_ns())) return;
  if (reporting_.exchange(true, std::memory_order_acq_rel)) return;
  runtime_.after(0, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->send_reports();
  });
}

void NodeSession::send_reports() {
  reporting_.exchange(false, std::memory_order_acq_rel);  // what is added from now on posts again
  std::vector<PageKey> keys = page_reports_->take();
  const std::shared_ptr<View> current = view();
  if (current == nullptr || keys.empty()) return;
  reports_.fetch_add(keys.size(), std::memory_order_relaxed);
  const auto told = [weak = weak_from_this()](const Result<Reply>& reply) {
    const auto* answer = reply ? std::get_if<ReportReply>(&*reply) : nullptr;
    if (auto self = weak.lock(); self != nullptr && answer != nullptr) {
      self->hear_of(answer->newest_epoch);
    }
  };
  const size_t most =
      std::clamp<size_t>(kMaxReportBytes / current->geometry.page_bytes, 1, kMaxReplicaPages);
  for (size_t i = 0; i < keys.size(); i += most) {
    ReportRequest request;
    request.keys.assign(keys.begin() + static_cast<ptrdiff_t>(i),
                        keys.begin() + static_cast<ptrdiff_t>(std::min(i + most, keys.size())));
    current->link->call(std::move(request), told);
  }
}

void NodeSession::hear_of(uint64_t epoch) {
  if (epoch > kMaxEpoch || epoch <= newest_epoch()) return;
  newest_epoch_.store(epoch, std::memory_order_relaxed);
}

std::string NodeSession::name() const {
  if (terms_.peer == 0) return "the memory node";
  return fmt::format("memory node {:016x}", terms_.peer);
}

// The dial, that is: no view was lost with it.
void NodeSession::failed(Error error) {
  returning_until_ns_.store(0, std::memory_order_release);
  dial_again(std::move(error));
}

void NodeSession::dial_again(Error error) {
  const bool final = error.code == Code::kProtocol || error.code == Code::kInvalid ||
                     error.code == Code::kDenied ||
                     (error.code == Code::kOtherEpoch && terms_.fixed);
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    if (view() == nullptr && final) refused_ = true;
    const bool is_new = !last_error_ || last_error_->message != error.message;
    const uint64_t now = runtime_.clock().now_ns();
    if (is_new || (final && now >= tell_again_ns_)) {
      if (view_.number() > 0 || (final && terms_.self != 0)) {
        log_warning("cannot reach " + name() + ": " + error.message);
      }
      tell_again_ns_ = now + kTellAgainNs;
      last_error_ = std::move(error);
    }
  }
  phase_.store(Phase::kTried, std::memory_order_release);
  runtime_.notify();
  pause_ns_ = std::clamp(pause_ns_ * 2, kFirstPauseNs, kLongestPauseNs);
  dial(pause_ns_);
}

void NodeSession::lost(const std::shared_ptr<View>& view) {
  view->connected = false;
  Error error = {Code::kUnavailable,
                 "the connection to the memory node was lost; connecting again"};
  {
    std::unique_lock lock(mutex_);
    if (stopped_) return;
    if (opening_ == view) {
      opening_.reset();
      lock.unlock();
      return failed(std::move(error));
    }
    // Its link, its lease and the caller that gives it up may all say so.
    if (this->view() != view || dialing_) return;
    dialing_ = true;
    last_error_.reset();
    returning_until_ns_.store(runtime_.clock().now_ns() + kReturnNs, std::memory_order_release);
  }
  dial_again(std::move(error));
}

void NodeSession::give_up(const std::shared_ptr<View>& view) {
  // Reads need no staging, and go on under the lease.
  if (!view->connected.exchange(false)) return;
  runtime_.after(0, [weak = weak_from_this(), weak_view = std::weak_ptr(view)] {
    auto self = weak.lock();
    auto lost = weak_view.lock();
    if (self != nullptr && lost != nullptr) self->lost(lost);
  });
}

}  // namespace farpage
