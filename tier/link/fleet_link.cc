#include "tier/link/fleet_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "pagetable/guards.h"
#include "tier/link/epoch_watch.h"
#include "tier/link/told_epoch.h"
#include "transport/source_memory.h"

namespace farpage {
namespace {

constexpr uint64_t kLooksPerView = 8;    // at the clock, and at what is left of the view
constexpr uint64_t kLooksLeft = 2;       // of a view when the register is read for the next one
constexpr uint64_t kDriftFraction = 64;  // ε
constexpr uint64_t kMostReading = 8;
constexpr uint64_t kFleetLastWordNs = 100 * kMillisecond;
// For one node's answer, before a client that has none yet dials others too.
constexpr uint64_t kPatienceNs = 100 * kMillisecond;

Epoch epoch_of_one() {
  Epoch epoch;
  epoch.members = {Member{}};
  epoch.give_slots();
  return epoch;
}

}  // namespace

EpochLease::EpochLease(Epoch of)
    : epoch(std::move(of)),
      tag(epoch.number == 0 ? EpochTag{} : EpochTag{epoch.number, epoch.identity()}),
      placement(epoch) {}

FleetLink::FleetLink(const ClientOptions& options, Runtime& runtime, Fabric& fabric, Fleet fleet)
    : options_(options),
      runtime_(runtime),
      fabric_(fabric),
      gate_(std::make_shared<FabricGate>(fabric)),
      fleet_(std::move(fleet)) {}

FleetLink::FleetLink(const ClientOptions& options, Runtime& runtime, Fabric& fabric,
                     ControlDialer& dialer)
    : options_(options),
      runtime_(runtime),
      fabric_(fabric),
      gate_(std::make_shared<FabricGate>(fabric)),
      alone_(&dialer) {}

Result<void> FleetLink::check() const {
  if (alone()) return {};
  if (!fleet_.dialer) return fail(Code::kInvalid, "a fleet needs a way to dial its nodes");
  if (!has_register()) return validate(fleet_.list);
  if (fleet_.view_ns == 0) return fail(Code::kInvalid, "a register needs a view lease (view_ns)");
  return {};
}

Result<void> FleetLink::connect() {
  if (auto valid = check(); !valid) return valid;
  const uint64_t deadline = runtime_.clock().now_ns() + options_.connect_ms * kMillisecond;
  if (alone()) {
    enter(epoch_of_one(), kNever);
  } else {
    runtime_.after(0, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->watch_links();
      if (self->has_register()) return self->watch_register();
      self->enter(self->fleet_.list, kNever);
    });
  }
  reach_one(deadline);
  // So that a dial that lasts to its own deadline can still say what it waited for.
  runtime_.wait_until(deadline + kFleetLastWordNs, [this] {
    const auto all = links();
    return any_node() || all.empty() ||
           std::ranges::any_of(all, [](const auto& link) { return link->error().has_value(); });
  });
  if (any_node()) return {};
  return tl::unexpected(why_none());
}

// Twice as many with each try: one that answers is found soon, however many are silent.
void FleetLink::reach_one(uint64_t deadline_ns) {
  const auto over = [this] { return any_node() || all_refused(); };
  for (size_t more = 1; !over() && runtime_.clock().now_ns() < deadline_ns;) {
    const auto current = view();
    const bool is_last = current != nullptr && !dial_more(*current, more);
    if (current != nullptr) more *= 2;
    const uint64_t patience_ns = runtime_.clock().now_ns() + kPatienceNs;
    runtime_.wait_until(is_last ? deadline_ns : std::min(deadline_ns, patience_ns), [&] {
      return over() || view() != current || (!is_last && current != nullptr && !any_coming());
    });
  }
}

// So many of those that are unused; each client begins with another one. False: there are not.
bool FleetLink::dial_more(const EpochLease& lease, size_t count) {
  const uint64_t first = Random::mix(runtime_.clock().now_ns());
  for (size_t i = 0; i < lease.links.size() && count > 0; ++i) {
    if (lease.links[(first + i) % lease.links.size()]->start()) --count;
  }
  return count == 0;
}

// A client that asks for little hears of epochs too, though the nodes that it has used are gone.
void FleetLink::watch_links() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
  }
  if (const auto current = view(); current != nullptr && !any_node() && !sleeps()) {
    dial_more(*current, 1);
  }
  runtime_.after(kPatienceNs, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->watch_links();
  });
}

bool FleetLink::sleeps() const {
  const std::lock_guard lock(mutex_);
  return view() != nullptr && are_unused();
}

bool FleetLink::are_unused() const {
  return std::ranges::all_of(links_,
                             [](const auto& entry) { return entry.second.link->is_unused(); });
}

// While another thread has the links, the answer may change.
bool FleetLink::wakes() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || are_unused()) return true;
  const uint64_t slept = slept_ns_;
  const uint64_t patience_ns = fleet_.view_ns / kLooksPerView + options_.connect_ms * kMillisecond;
  return slept != 0 && runtime_.clock().now_ns() < slept + patience_ns;
}

std::shared_ptr<EpochLease> FleetLink::wake_up(uint64_t deadline_ns) {
  std::shared_ptr<EpochLease> current;
  const auto is_awake = [&] {
    current = view();
    return current->valid(runtime_.clock().now_ns()) || !wakes();
  };
  if (is_awake()) return current;
  dial_more(*current, 1);
  runtime_.wait_until(deadline_ns, is_awake);
  return current;
}

bool FleetLink::reachable() const {
  if (sleeps()) return true;
  const auto current = view();
  return current != nullptr && current->valid(runtime_.clock().now_ns()) && any_node();
}

void FleetLink::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  for (const auto& link : links()) link->stop();
  gate_->close();
  view_.touch();
}

std::vector<std::shared_ptr<NodeSession>> FleetLink::links() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<NodeSession>> links;
  for (const auto& [node, known] : links_) links.push_back(known.link);
  return links;
}

// With a register, one that its epoch knows: what is reached may be of another fleet.
bool FleetLink::any_node() const {
  const auto current = view();
  if (current == nullptr) return false;
  for (size_t member = 0; member < current->links.size(); ++member) {
    const auto reached = current->links[member]->view();
    const uint64_t known = current->epoch.members[member].incarnation;
    const bool is_valid = reached != nullptr && reached->valid(runtime_.clock().now_ns());
    if (is_valid && (!has_register() || reached->incarnation == known)) return true;
  }
  return false;
}

bool FleetLink::any_coming() const {
  return std::ranges::any_of(links(), [](const auto& link) { return link->is_coming(); });
}

bool FleetLink::all_refused() const {
  const auto current = view();
  return current != nullptr && !has_register() &&
         std::ranges::all_of(current->links, [](const auto& link) { return link->refused(); });
}

Error FleetLink::why_none() const {
  std::optional<Error> any;
  for (const auto& link : links()) {
    const auto error = link->error();
    if (error && link->refused()) return *error;  // what a person has to mend
    if (error) any = error;
  }
  if (any) return *any;
  if (std::ranges::any_of(links(), [](const auto& link) { return link->view() != nullptr; })) {
    return {Code::kUnavailable,
            "the node that answers is not a member of this fleet's epoch: does etcd.fleet name "
            "another fleet, or is the token another tenant's?"};
  }
  const auto current = view();
  const std::lock_guard lock(mutex_);
  if (current == nullptr && register_error_) return *register_error_;
  if (current == nullptr) {
    return {Code::kTimeout,
            fmt::format("the register of epochs has not answered for {} ms (client.connect_ms)",
                        options_.connect_ms)};
  }
  return {Code::kTimeout,
          fmt::format("{} not answered for {} ms (client.connect_ms): is it stopped?",
                      current->links.size() == 1 ? "the node has" : "none of the nodes has",
                      options_.connect_ms)};
}

uint32_t FleetLink::add_source(const MemoryRange& memory) {
  const bool is_shared = dynamic_cast<SourceMemory*>(&fabric_) != nullptr;
  return is_shared ? sources_->add(memory) : 0;
}

void FleetLink::share_sources() {
  for (const ClientSources::Wanted& wanted : sources_->take_wanted()) {
    auto exported = dynamic_cast<SourceMemory&>(fabric_).export_source(wanted.memory);
    if (!exported) continue;
    sources_->exported(wanted.source, std::move(*exported));
    for (const auto& link : links()) link->offer_sources();
  }
}

void FleetLink::remove_source(uint32_t source) {
  sources_->remove(source);
  for (const auto& link : links()) link->withdraw_source(source);
}

void FleetLink::enter(const Epoch& epoch, uint64_t valid_until_ns, const ClockGap& gap) {
  auto next = std::make_shared<EpochLease>(epoch);
  next->valid_until_ns = valid_until_ns;
  next->gap = gap;
  std::shared_ptr<EpochLease> former = view();
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    if (former != nullptr) leave_after(former->valid_until_ns.load(std::memory_order_relaxed));
    for (const Member& member : epoch.members) {
      KnownLink& known = links_[member.node];
      if (known.link == nullptr) known.link = make_link(member, epoch.page_bytes);
      known.ends_ns = kNever;
      next->links.push_back(known.link);
    }
    learned_ns_ = runtime_.clock().now_ns();
    former = view_.publish(std::move(next));
  }
  runtime_.notify();
}

// No client reads under the view once its lease has ended, and no read renews that of an epoch
// which has been replaced.
void FleetLink::leave_after(uint64_t view_ends_ns) {
  for (auto& [node, known] : links_) known.ends_ns = std::min(known.ends_ns, view_ends_ns);
  if (view_ends_ns == kNever) return;
  const uint64_t now = runtime_.clock().now_ns();
  runtime_.after(view_ends_ns - std::min(now, view_ends_ns), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->let_go();
  });
}

// Inside the gate: what goes with a link may be of the fabric, which outlives only that.
void FleetLink::let_go() {
  (void)gate_->pass([this](Fabric&) -> Result<void> {
    const uint64_t now = runtime_.clock().now_ns();
    std::vector<std::shared_ptr<NodeSession>> former;
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(links_, [&](auto& entry) {
        if (now < entry.second.ends_ns) return false;
        former.push_back(std::move(entry.second.link));
        return true;
      });
    }
    // Not under the lock: what a link's end destroys may call back.
    for (const auto& link : former) link->stop();
    return {};
  });
}

std::shared_ptr<NodeSession> FleetLink::make_link(const Member& member, uint64_t page_bytes) {
  HelloExpectations terms;
  if (!alone()) {
    terms.peer = member.node;
    terms.page_bytes = page_bytes;
    terms.fixed = !has_register();
    if (has_register()) {
      terms.told = [weak = weak_from_this()](const ToldView& view) {
        if (const auto self = weak.lock()) self->told(view);
      };
      terms.may_rest = [weak = weak_from_this()] {
        const auto self = weak.lock();
        const auto current = self == nullptr ? nullptr : self->view();
        return current != nullptr && current->valid(self->runtime_.clock().now_ns());
      };
    }
    terms.epoch = [weak = weak_from_this()] {
      const auto self = weak.lock();
      const auto current = self == nullptr ? nullptr : self->view();
      return current == nullptr ? EpochTag{} : current->tag;
    };
  }
  return std::make_shared<NodeSession>(options_, runtime_, fabric_, gate_,
                                       alone() ? *alone_ : fleet_.dialer(member.node),
                                       std::move(terms), counters_, sources_);
}

void FleetLink::watch_register() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
  }
  if (sleeps()) {
    slept_ns_ = runtime_.clock().now_ns();
  } else if (end_if_held() || runs_out()) {
    read_register_once();
  }
  runtime_.after(fleet_.view_ns / kLooksPerView, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->watch_register();
  });
}

// Soon no view is left, if nobody tells of one.
bool FleetLink::runs_out() const {
  const auto current = view();
  const uint64_t soon = runtime_.clock().now_ns() + fleet_.view_ns * kLooksLeft / kLooksPerView;
  return current == nullptr || !current->valid(soon);
}

// True: the lease is over until the register has been read again. If that is in the same epoch,
// nothing that was read meanwhile was wrong.
bool FleetLink::end_if_held() {
  const auto current = view();
  if (current == nullptr || !current->valid(runtime_.clock().now_ns())) return false;
  const uint64_t held = ClockGap::held_ns(runtime_, current->gap, fleet_.view_ns);
  if (held == 0) return false;
  counters_->lease_ended_held(held);
  current->valid_until_ns = 0;
  return true;
}

// Where nodes tell of no views, all clients come here: no more of them wait there than there are.
void FleetLink::read_register_once() {
  {
    const std::lock_guard lock(mutex_);
    if (reading_ > 0) return;
  }
  read_register();
}

void FleetLink::read_register() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || reading_ == kMostReading) return;
    ++reading_;
  }
  const uint64_t sent = runtime_.clock().now_ns();
  const ClockGap gap = ClockGap::of(runtime_);
  fleet_.epochs->read([weak = weak_from_this(), sent, gap](const Result<RegisteredEpoch>& read) {
    if (auto self = weak.lock()) self->learned(sent, gap, read);
  });
}

void FleetLink::told(const ToldView& told) {
  const auto current = view();
  if (current == nullptr || told.age_ns >= fleet_.view_ns) return;
  if (told.epoch == current->tag) {
    extend(*current, told_until_ns(told.sent_ns, told.age_ns), told.gap);
  }
  ask_if_later(told.epoch, *told.link);
  watch(told);
}

void FleetLink::ask_if_later(const EpochTag& epoch, ControlLink& link) {
  if (epoch.number > view()->epoch.number) ask(link);
}

void FleetLink::watch(const ToldView& told) {
  if (epoch_watch_ == nullptr) {
    epoch_watch_ = std::make_shared<EpochWatch>(
        [weak = weak_from_this()](const EpochTag& epoch, ControlLink& link) {
          if (const auto self = weak.lock()) self->ask_if_later(epoch, link);
        });
  }
  epoch_watch_->watch(told.epoch, told.link);
}

void FleetLink::ask_node(NodeSession& node) {
  const auto reached = node.view();
  if (reached == nullptr) return read_register();
  ask(*reached->link);
}

// One question at a time, unless its answer lasts: a node that has stopped gives none before its
// lease ends.
void FleetLink::ask(ControlLink& link) {
  const uint64_t now = runtime_.clock().now_ns();
  if (now < ask_again_ns_) return;
  ask_again_ns_ = now + fleet_.view_ns / kLooksPerView;
  link.call(EpochRequest{}, [weak = weak_from_this(), sent_ns = now,
                             gap = ClockGap::of(runtime_)](const Result<Reply>& reply) {
    if (const auto self = weak.lock()) self->answered(sent_ns, gap, reply);
  });
}

// Where the node knows no more, the register does.
void FleetLink::answered(uint64_t sent_ns, const ClockGap& gap, const Result<Reply>& reply) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
  }
  ask_again_ns_ = 0;
  const auto* told = reply ? std::get_if<EpochReply>(&*reply) : nullptr;
  if (told == nullptr || told->view.number == 0 || told->view_age_ns >= fleet_.view_ns) {
    return read_register();
  }
  const Epoch epoch = epoch_of(*told);
  if (!validate(epoch) || epoch.identity() != told->view.identity) return read_register();
  if (ClockGap::held_ns(runtime_, gap, fleet_.view_ns) > 0) return read_register();
  if (epoch.number <= view()->epoch.number) return;
  bool all_addresses = true;
  for (const EpochMember& member : told->members) {
    if (!member.address.empty() && fleet_.heard_of)
      fleet_.heard_of(epoch.number, member.node, member.address);
    all_addresses = all_addresses && !member.address.empty();
  }
  enter(epoch, told_until_ns(sent_ns, told->view_age_ns), gap);
  if (fleet_.heard_of && !all_addresses) read_register();
}

// A node answers after the client asked: counted back from the asking by as much as the node's view
// had aged, a lease begins no later than the node's read was sent (protocol rule 12).
uint64_t FleetLink::told_until_ns(uint64_t sent_ns, uint64_t age_ns) const {
  const uint64_t aged_ns = enforced(Guard::kViewAge) ? age_ns + age_ns / kDriftFraction : 0;
  return sent_ns + fleet_.view_ns - aged_ns;
}

void FleetLink::extend(EpochLease& lease, uint64_t until_ns, const ClockGap& gap) {
  if (lease.valid_until_ns.load(std::memory_order_relaxed) >= until_ns) return;
  const bool was_over = !lease.valid(runtime_.clock().now_ns());
  lease.gap = gap;
  lease.valid_until_ns.store(until_ns, std::memory_order_release);
  if (was_over) runtime_.notify();
}

void FleetLink::learned(uint64_t sent_ns, const ClockGap& gap,
                        const Result<RegisteredEpoch>& read) {
  std::shared_ptr<EpochLease> current;
  {
    const std::lock_guard lock(mutex_);
    --reading_;
    if (stopped_) return;
    if (!read) register_error_ = read.error();
    if (read && read->epoch.number == 0) {
      register_error_ = Error{Code::kUnavailable,
                              "no memory node has begun this fleet: start one with 'farpage node'"};
    }
    current = view();
  }
  if (!read || (read->epoch.number == 0 && current == nullptr)) return runtime_.notify();
  end_if_held();
  if (ClockGap::held_ns(runtime_, gap, fleet_.view_ns) > 0) return read_register();
  const Epoch& epoch = read->epoch;
  // `view_lease` counts from the sending: the epoch may have been replaced since.
  const uint64_t until = enforced(Guard::kLinearizableView) ? sent_ns + fleet_.view_ns : kNever;
  if (auto valid = validate(epoch); !valid) {
    if (std::exchange(told_of_going_back_, true)) return;
    return log_warning("refused the register's epoch: " + valid.error().message);
  }
  const bool is_next = current == nullptr || epoch.number > current->epoch.number;
  if (is_next || epoch == current->epoch) told_of_going_back_ = false;
  if (is_next) return enter(epoch, until, gap);
  if (epoch == current->epoch) return extend(*current, until, gap);
  // A message sent before the epoch was learned may well be of the previous one.
  if (sent_ns < learned_ns_ || std::exchange(told_of_going_back_, true)) return;
  log_warning(
      fmt::format("refused epoch {} from the register after {}: was its "
                  "data lost?",
                  epoch.number, current->epoch.number));
}

}  // namespace farpage
