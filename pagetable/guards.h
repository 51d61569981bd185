#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#ifdef FARPAGE_GUARD_SWITCHES
#include <atomic>
#endif

// The rules of the protocol that a campaign attacks, each under the one name that it has in
// tests/model/README.md too. Where the code keeps a rule, it asks enforced(Guard::…) first: always
// true, and gone from the program, except in a build with FARPAGE_GUARD_SWITCHES, where a test
// switches one off to see that the campaign finds what it prevents.
namespace farpage {

enum class Guard : uint8_t {
  kLiveWord,
  kLiveWordBeforeAck,
  kHeaderRereadForLocal,
  kAllOfEpoch,
  kFifoReplication,
  kNewerOnly,
  kFloor,
  kEpochInMessages,
  kEpochInVersion,
  kDropOnEntering,
  kKillBeforeConfirm,
  kConfirmBeforePuts,
  kOwnTransactionReturn,
  kBytesOfTheEpochBefore,
  kViewWait,
  kLinearizableView,
  kViewAge,
  kViewCheckedAfterBegin,
  kViewCheckedAtCompletion,
  kPrimaryLease,
  kKillOnFree,
  kStampAfterUnpublish,
  kReuseWait,
  kLeasePerRead,
  kExactHeader,
  kPayloadCrc,
  kOneLandingOneAttempt,
  kReadyNeedsAllEnded,
  kHoldUntilEnded,
  kPushEndedByInvalidation,
  kVerdictCas,
  kVerdictByDeadline,
  kZeroLanding,
};
inline constexpr std::array<std::string_view, 33> kGuardNames = {
    "live_word",
    "live_word_before_ack",
    "header_reread_for_local",
    "all_of_epoch",
    "fifo_replication",
    "newer_only",
    "floor",
    "epoch_in_messages",
    "epoch_in_version",
    "drop_on_entering",
    "kill_before_confirm",
    "confirm_before_puts",
    "own_transaction_return",
    "bytes_of_the_epoch_before",
    "view_wait",
    "linearizable_view",
    "view_age",
    "view_checked_after_begin",
    "view_checked_at_completion",
    "primary_lease",
    "kill_on_free",
    "stamp_after_unpublish",
    "reuse_wait",
    "lease_per_read",
    "exact_header",
    "payload_crc",
    "one_landing_one_attempt",
    "ready_needs_all_ended",
    "hold_until_ended",
    "push_ended_by_invalidation",
    "verdict_cas",
    "verdict_by_deadline",
    "zero_landing",
};

static_assert(kGuardNames.size() == static_cast<size_t>(Guard::kZeroLanding) + 1);

constexpr std::optional<Guard> guard_named(std::string_view name) {
  for (size_t i = 0; i < kGuardNames.size(); ++i) {
    if (kGuardNames[i] == name) return static_cast<Guard>(i);
  }
  return std::nullopt;
}

#ifdef FARPAGE_GUARD_SWITCHES

inline std::atomic<uint64_t> guards_off{0};

inline bool enforced(Guard guard) {
  return (guards_off.load(std::memory_order_relaxed) >> static_cast<unsigned>(guard) & 1) == 0;
}

// Off while this lives; for the whole process.
class GuardOff {
 public:
  explicit GuardOff(Guard guard) : bit_(uint64_t{1} << static_cast<unsigned>(guard)) {
    guards_off.fetch_or(bit_, std::memory_order_relaxed);
  }
  ~GuardOff() { guards_off.fetch_and(~bit_, std::memory_order_relaxed); }
  GuardOff(const GuardOff&) = delete;
  GuardOff& operator=(const GuardOff&) = delete;

 private:
  uint64_t bit_;
};

#else

constexpr bool enforced(Guard) {
  return true;
}

#endif

}  // namespace farpage
