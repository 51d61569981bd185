#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/clock_gap.h"
#include "base/log.h"
#include "base/runtime.h"
#include "control/messages.h"
#include "pagetable/placement.h"
#include "tier/link/fleet.h"

namespace farpage {

// Which epoch this node is in, what it holds in it, and whether it may take puts (protocol rules 6,
// 8, 9 and 12). With a list it is one epoch for ever; with a register it is read there several
// times per `view_lease`, entered, and confirmed. On the runtime's thread.
class NodeEpoch {
 public:
  struct Hooks {
    // The epoch is now epoch(): abort what belongs to the one before, and kill what is not of this
    // node's any more, which may take until after this returns: see killed().
    std::function<void()> entered;
    // Left out: this run is over. Its pages are withdrawn, and another one takes its place, which
    // joins by itself. Called last.
    std::function<void()> left_out;
    // Whether this run has met all members that live, so that it may join; null: it need not, and
    // not null only with a membership.
    std::function<Result<void>(const RegisteredEpoch&)> met = nullptr;
  };

  // `page_bytes`: the longest page that this node takes. A fleet with another one is not joined.
  NodeEpoch(Runtime& runtime, const Fleet& fleet, const Member& self, uint64_t page_bytes,
            Hooks hooks);
  // With a register: begins to read it, and joins.
  void start();
  // Somebody is in a later epoch: reads the register soon. The members of a large fleet, which all
  // hear of it within a moment, take turns.
  void look();
  // No page is left here that this node does not hold in epoch(): confirms the epoch (rule 8).
  void killed();

  // No member yet: number 0.
  const Epoch& epoch() const { return epoch_; }
  EpochTag tag() const { return tag_; }
  const Member& self() const { return self_; }
  bool is_fixed() const { return fleet_.epochs == nullptr; }

  // Nothing before this node is a member.
  std::optional<ReplicaSet> replicas(const PageKey& key) const;
  bool is_holder(const ReplicaSet& set) const { return set.contains(place_); }
  bool is_primary(const ReplicaSet& set) const { return set.primary() == place_; }
  NodeId node_of(size_t place) const { return epoch_.members[place].node; }
  // Whether the key's set of this epoch has this node, or another member.
  bool holds(const PageKey& key) const { return own_ && placement_->holds(*own_, key); }
  bool holds(const Placement::Holder& member, const PageKey& key) const {
    return placement_->holds(member, key);
  }
  // Nothing: it holds nothing.
  std::optional<Placement::Holder> holder(NodeId node) const;

  // The epoch that this node was in before epoch(), and what a member held there. 0: none; then no
  // member held anything.
  uint64_t number_before() const { return number_before_; }
  std::optional<Placement::Holder> holder_before(NodeId node) const;
  bool held_before(const Placement::Holder& member, const PageKey& key) const {
    return placement_before_->holds(member, key);
  }

  // Whether any node can have given this version out. With a list the nodes' epochs are their own.
  bool can_be(Version version) const {
    return version != 0 && (is_fixed() || version_epoch(version) <= epoch_.number);
  }

  // That this epoch is the current one, as far as this node can know (rule 12).
  bool view_valid(uint64_t now_ns) const;
  // The age of that view: since the read that it comes from was sent. Nothing: it has ended, or
  // there is no register.
  std::optional<uint64_t> view_age_ns(uint64_t now_ns) const;
  // Why one of the two does not hold, in a sentence.
  std::string why_closed(uint64_t now_ns) const;
  // The views of the epoch before have ended, and all members are in this one (rule 8).
  bool puts_open(uint64_t now_ns) const;

 private:
  void answered(uint64_t sent_ns, const ClockGap& gap, const RegisteredEpoch& read);
  // Whether the register can be right.
  Result<void> check(const Epoch& said) const;
  void enter(const Epoch& epoch);
  bool may_confirm() const;
  void confirm();
  Epoch first_epoch() const;
  void join(const RegisteredEpoch& read);
  bool has_met(const RegisteredEpoch& read);
  void read();
  uint64_t turn_ns() const;
  void look_in(uint64_t delay_ns);
  void look_at(uint64_t time_ns);
  void look_after(const Result<void>& written);

  Runtime& runtime_;
  const Fleet& fleet_;
  const Member self_;
  const uint64_t page_bytes_;
  const Hooks hooks_;
  Epoch epoch_;
  EpochTag tag_;
  std::optional<Placement> placement_;
  std::optional<Placement> placement_before_;
  uint64_t number_before_ = 0;
  std::optional<Placement::Holder> own_;
  size_t place_ = 0;     // of this node among the members
  bool killed_ = false;  // in this epoch, see killed()
  uint64_t learned_ns_ = 0;
  uint64_t view_until_ns_ = 0;
  ClockGap view_gap_;  // when that view was asked for
  bool all_confirmed_ = false;
  NodeId unconfirmed_ = 0;  // one of those that have not
  bool reading_ = false;
  std::optional<uint64_t> again_in_ns_;  // a look that came during a read: so long after it
  uint64_t not_before_ns_ = 0;           // the next read
  uint64_t due_ns_ = kNever;             // that there is a timer for
  uint64_t due_look_ = 0;                // its number: a timer of another one was superseded
  bool confirming_ = false;
  bool joining_ = false;
  uint64_t meeting_since_ns_ = 0;    // and have not met all yet; 0: it does not try
  uint64_t differing_since_ns_ = 0;  // 0: waiting may mend it
  bool told_of_refusal_ = false;
  WarningLimiter warnings_;
  WarningLimiter meeting_warnings_{10 * kSecond};
  std::shared_ptr<void> watching_;  // the register
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by callbacks that look at it
};

}  // namespace farpage
