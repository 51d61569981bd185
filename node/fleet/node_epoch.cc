#include "node/fleet/node_epoch.h"

#include <fmt/format.h>

#include <algorithm>

#include "pagetable/guards.h"
#include "tier/link/membership.h"

namespace farpage {
namespace {

constexpr uint64_t kLooksPerView = 4;
constexpr uint64_t kMostLooksPerView = 64;  // whatever others tell
constexpr uint64_t kMeetingLooksPerView = 32;
constexpr uint64_t kPatiencesForTheSilent = 6;
constexpr uint64_t kDriftFraction = 64;  // ε
// Of members that hear of a later epoch: so many read the register at once, and the next ones then.
constexpr uint64_t kReadersAtOnce = 16;
constexpr uint64_t kReadersApartNs = 4 * kMillisecond;
constexpr uint64_t kTurnsPerView = 8;  // all have had theirs within such a part of a view

}  // namespace

NodeEpoch::NodeEpoch(Runtime& runtime, const Fleet& fleet, const Member& self, uint64_t page_bytes,
                     Hooks hooks)
    : runtime_(runtime),
      fleet_(fleet),
      self_(self),
      page_bytes_(page_bytes),
      hooks_(std::move(hooks)) {}

void NodeEpoch::start() {
  if (is_fixed()) return enter(fleet_.list);
  watching_ = fleet_.epochs->when_changed([this] { look(); });
  look();
}

std::optional<ReplicaSet> NodeEpoch::replicas(const PageKey& key) const {
  if (!placement_) return std::nullopt;
  return placement_->replicas(key);
}

std::optional<Placement::Holder> NodeEpoch::holder(NodeId node) const {
  return placement_ ? placement_->holder(node) : std::nullopt;
}

std::optional<Placement::Holder> NodeEpoch::holder_before(NodeId node) const {
  return placement_before_ ? placement_before_->holder(node) : std::nullopt;
}

bool NodeEpoch::view_valid(uint64_t now_ns) const {
  if (is_fixed() || !enforced(Guard::kPrimaryLease)) return true;
  return now_ns < view_until_ns_ && ClockGap::held_ns(runtime_, view_gap_, fleet_.view_ns) == 0;
}

std::optional<uint64_t> NodeEpoch::view_age_ns(uint64_t now_ns) const {
  if (is_fixed() || now_ns >= view_until_ns_) return std::nullopt;
  const uint64_t sent_ns = view_until_ns_ - fleet_.view_ns;
  // What this machine was held, as far as its clocks tell, counts in full: a client forgives some
  // of that for itself, and it must not add up.
  const uint64_t age_ns = now_ns - sent_ns + ClockGap::of(runtime_).grown_since(view_gap_);
  return age_ns < fleet_.view_ns ? std::optional(age_ns) : std::nullopt;
}

bool NodeEpoch::puts_open(uint64_t now_ns) const {
  if (!placement_) return false;
  if (is_fixed()) return true;
  const uint64_t opens = learned_ns_ + fleet_.view_ns + fleet_.view_ns / kDriftFraction;
  return (now_ns >= opens || !enforced(Guard::kViewWait)) &&
         (all_confirmed_ || !enforced(Guard::kConfirmBeforePuts));
}

std::string NodeEpoch::why_closed(uint64_t now_ns) const {
  const auto say = [this](const std::string& what) {
    return fmt::format("node {:016x} takes no puts: {}", self_.node, what);
  };
  if (!placement_) return say("it is a member of no epoch yet");
  if (!view_valid(now_ns)) return say("it has not heard of the register of epochs for a lease");
  if (!all_confirmed_ && unconfirmed_ != 0) {
    return say(fmt::format("member {:016x} has not confirmed the epoch yet", unconfirmed_));
  }
  return say("the epoch has just begun");
}

// The soonest is the only one: each read has one successor, however many looks there were.
void NodeEpoch::look_at(uint64_t time_ns) {
  if (due_ns_ <= time_ns) return;
  due_ns_ = time_ns;
  const uint64_t now = runtime_.clock().now_ns();
  runtime_.after(time_ns > now ? time_ns - now : 0,
                 [this, due = ++due_look_, alive = std::weak_ptr<bool>(alive_)] {
                   if (!alive.expired() && due == due_look_) read();
                 });
}

void NodeEpoch::look() {
  if (!is_fixed()) look_in(turn_ns());
}

// Another node begins in each epoch.
uint64_t NodeEpoch::turn_ns() const {
  const uint64_t members = epoch_.members.size();
  if (members <= kReadersAtOnce) return 0;
  const uint64_t groups = (members - 1) / kReadersAtOnce;
  const uint64_t group = (place_ + epoch_.number) % members / kReadersAtOnce;
  return group * std::min(kReadersApartNs, fleet_.view_ns / kTurnsPerView / groups);
}

void NodeEpoch::look_in(uint64_t delay_ns) {
  if (reading_) {
    again_in_ns_ = std::min(again_in_ns_.value_or(kNever), delay_ns);
    return;
  }
  const uint64_t now = runtime_.clock().now_ns();
  const uint64_t time_ns = std::max(now + delay_ns, not_before_ns_);
  if (time_ns > now) {
    look_at(time_ns);
  } else {
    read();
  }
}

void NodeEpoch::read() {
  reading_ = true;
  again_in_ns_.reset();
  due_ns_ = kNever;
  ++due_look_;
  const uint64_t sent = runtime_.clock().now_ns();
  const ClockGap gap = ClockGap::of(runtime_);
  not_before_ns_ = sent + fleet_.view_ns / kMostLooksPerView;
  fleet_.epochs->read(
      [this, sent, gap, alive = std::weak_ptr<bool>(alive_)](const Result<RegisteredEpoch>& read) {
        if (alive.expired()) return;
        reading_ = false;
        // Before what follows, which may end this run.
        look_at(sent + fleet_.view_ns / kLooksPerView);
        if (again_in_ns_) {
          look_at(std::max(not_before_ns_, runtime_.clock().now_ns() + *again_in_ns_));
        }
        if (read) answered(sent, gap, *read);
      });
}

void NodeEpoch::answered(uint64_t sent_ns, const ClockGap& gap, const RegisteredEpoch& read) {
  const uint64_t held = ClockGap::held_ns(runtime_, view_gap_, fleet_.view_ns);
  if (held > 0 && sent_ns < view_until_ns_) warnings_.warn(held_warning(held));
  if (read.epoch.number == 0 && !placement_) return join({first_epoch(), {}, {}});
  if (auto believed = check(read.epoch); !believed) {
    if (std::exchange(told_of_refusal_, true)) return;
    return log_warning("refused the register's epoch: " + believed.error().message);
  }
  told_of_refusal_ = false;
  const Member* me = read.epoch.find(self_.node);
  if (me == nullptr || me->incarnation != self_.incarnation) {
    if (placement_ && enforced(Guard::kOwnTransactionReturn)) return hooks_.left_out();
    return join(read);
  }
  if (read.epoch.number > epoch_.number) enter(read.epoch);
  view_until_ns_ = sent_ns + fleet_.view_ns;
  view_gap_ = gap;
  all_confirmed_ = read.all_confirmed();
  const auto unconfirmed = std::ranges::find_if(epoch_.members, [&](const Member& member) {
    return std::ranges::find(read.confirmed, member.node) == read.confirmed.end();
  });
  unconfirmed_ = unconfirmed == epoch_.members.end() ? 0 : unconfirmed->node;
  const bool has_confirmed = std::ranges::find(read.confirmed, self_.node) != read.confirmed.end();
  if (!has_confirmed && may_confirm()) confirm();
}

bool NodeEpoch::may_confirm() const {
  return killed_ || !enforced(Guard::kKillBeforeConfirm);
}

void NodeEpoch::killed() {
  killed_ = true;
  if (!is_fixed()) confirm();
}

// Reads come one after the other, so none was sent before the epoch of this node was learned.
Result<void> NodeEpoch::check(const Epoch& said) const {
  if (auto valid = validate(said); !valid) return valid;
  const bool goes_back = said.number < epoch_.number;
  if (!goes_back && (said.number > epoch_.number || said == epoch_)) return {};
  return fail(Code::kInvalid,
              fmt::format("it is {} after {}{}: was the register's data lost?", said.number,
                          epoch_.number, goes_back ? "" : ", with other content"));
}

void NodeEpoch::enter(const Epoch& epoch) {
  number_before_ = epoch_.number;
  placement_before_ = std::move(placement_);
  epoch_ = epoch;
  tag_ = {epoch.number, epoch.identity()};
  placement_.emplace(epoch_);
  own_ = placement_->holder(self_.node);
  place_ = static_cast<size_t>(epoch_.find(self_.node) - epoch_.members.data());
  learned_ns_ = runtime_.clock().now_ns();
  all_confirmed_ = false;
  killed_ = false;
  hooks_.entered();
}

void NodeEpoch::confirm() {
  if (std::exchange(confirming_, true)) return;
  fleet_.epochs->confirm(self_.node, epoch_.number,
                         [this, alive = std::weak_ptr<bool>(alive_)](const Result<void>& written) {
                           if (alive.expired()) return;
                           confirming_ = false;
                           look_after(written);  // whether it is done, and who else has
                         });
}

// A step that failed for another reason than an epoch would fail again: it waits for the look that
// is due in any case.
void NodeEpoch::look_after(const Result<void>& written) {
  if (written || written.error().code == Code::kAborted) look_in(0);
}

// The state before the first epoch of a fleet.
Epoch NodeEpoch::first_epoch() const {
  return {.number = 0,
          .replicas = fleet_.list.replicas,
          .seed = fleet_.list.seed,
          .page_bytes = page_bytes_,
          .members = {}};
}

// One that cannot be reached would be a member all the same, for its own process tells the register
// that it lives, and every put whose replica it is would fail.
bool NodeEpoch::has_met(const RegisteredEpoch& read) {
  if (!hooks_.met) return true;
  const auto met = hooks_.met(read);
  if (met) {
    meeting_since_ns_ = differing_since_ns_ = 0;
    return true;
  }
  const uint64_t now = runtime_.clock().now_ns();
  if (meeting_since_ns_ == 0) meeting_since_ns_ = now;
  const uint64_t tried_ns = now - meeting_since_ns_;
  if (met.error().code != Code::kInvalid) {
    differing_since_ns_ = 0;
  } else if (differing_since_ns_ == 0) {
    differing_since_ns_ = now;
  }
  const uint64_t meet_ns = fleet_.membership->meet_ns();
  const bool differs = differing_since_ns_ != 0 && now - differing_since_ns_ >= meet_ns;
  if (differs || tried_ns >= meet_ns * kPatiencesForTheSilent) {
    fleet_.membership->cannot_join("this node does not join the fleet: " + met.error().message +
                                   "; mend that, and start it again");
  } else if (tried_ns >= fleet_.view_ns) {
    meeting_warnings_.warn("this node does not join the fleet yet: " + met.error().message);
  }
  look_at(now + fleet_.view_ns / kMeetingLooksPerView);
  return false;
}

// Rule 9: by this node's own transaction alone.
void NodeEpoch::join(const RegisteredEpoch& read) {
  const Epoch& current = read.epoch;
  if (current.page_bytes != page_bytes_) {
    return warnings_.warn(
        fmt::format("this node does not join the fleet: node.page_bytes is {}, "
                    "and the fleet's pages are of up to {}",
                    page_bytes_, current.page_bytes));
  }
  if (joining_ || !has_met(read)) return;
  joining_ = true;
  Epoch next = current;
  ++next.number;
  std::erase_if(next.members, [&](const Member& member) { return member.node == self_.node; });
  next.members.push_back(self_);
  next.give_slots(current.members);
  next.set_replicas(std::max(next.replicas, fleet_.list.replicas));
  fleet_.epochs->replace(
      current.number, std::move(next),
      [this, alive = std::weak_ptr<bool>(alive_)](const Result<void>& joined) {
        if (alive.expired()) return;
        joining_ = false;
        if (!joined && joined.error().code == Code::kInvalid) {
          return warnings_.warn("this node does not join the fleet: " + joined.error().message);
        }
        look_after(joined);
      });
}

}  // namespace farpage
