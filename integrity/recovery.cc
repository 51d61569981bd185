#include "integrity/recovery.h"

#include <bit>
#include <initializer_list>

namespace farpage {
namespace {

using Action = Recovery::Action;

uint8_t first_of(Replicas replicas) {
  return static_cast<uint8_t>(std::countr_zero(replicas));
}

// The first of the best: those with a path, those that are trusted, those not tried in vain.
Replicas best_of(Replicas candidates, const PageHistory& history, const ReplicaStates& states) {
  Replicas best = candidates;
  for (const Replicas wanted : {states.trusted, static_cast<Replicas>(~history.failed)}) {
    if ((best & wanted) != 0) best &= wanted;
  }
  return best;
}

}  // namespace

const char* reason_name(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "none";
    case Reason::kMiss:
      return "miss";
    case Reason::kStale:
      return "stale";
    case Reason::kCorrupt:
      return "corrupt";
    case Reason::kStalled:
      return "stalled";
    case Reason::kUnreachable:
      return "unreachable";
    case Reason::kSlower:
      return "slower";
  }
  return "unknown";
}

Recovery recover(const PageHistory& history, const ReplicaStates& states, bool slow) {
  const auto silent = static_cast<Replicas>(~(history.said() | history.gone));
  const auto left = static_cast<Replicas>(states.reachable & silent);
  if (history.under_way != 0) {
    const auto others = static_cast<Replicas>(left & states.open & states.trusted & ~history.asked);
    if (!slow || history.hedged || others == 0) return {};
    return {Action::kHedge, first_of(others)};
  }
  if (left == 0) {
    Reason reason = Reason::kUnreachable;
    if (!states.has_view) return {Action::kRecompute, 0, reason};
    if (history.said() != 0 && (states.returning & silent) != 0) return {};
    if (history.missed != 0) reason = Reason::kMiss;
    if (history.stale != 0) reason = Reason::kStale;
    if (history.corrupt != 0) reason = Reason::kCorrupt;
    return {Action::kRecompute, 0, reason};
  }
  const auto open = static_cast<Replicas>(left & states.open);
  if (open == 0) return {};
  const uint8_t rank = first_of(best_of(open, history, states));
  const bool again = history.attempts > 0 && rank == history.last;
  return {again ? Action::kLookAgain : Action::kNextReplica, rank};
}

}  // namespace farpage
