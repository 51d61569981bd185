// The guarantees for a caller's own event loop, where an initiator has a descriptor.
#include <algorithm>
#include <vector>

#include "base/units.h"
#include "net/stream/stream.h"
#include "tests/transport/contract/contract.h"

namespace farpage::contract {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr uint64_t kRounds = 200;
constexpr uint64_t kReads = 8;

class Waiter {
 public:
  Waiter(Initiator& initiator, const Clock& clock) : initiator_(initiator), clock_(clock) {}

  // Waits on nothing but the descriptor. False: nobody has woken it.
  bool wait(uint64_t in_ns) {
    const uint64_t due_ns = initiator_.arm();
    if (due_ns == 0) return true;
    EXPECT_GE(initiator_.descriptor(), 0);
    const uint64_t until_ns = clock_.now_ns() + in_ns;
    return wait_for(initiator_.descriptor(), POLLIN, std::min(due_ns, until_ns)) ||
           due_ns < until_ns;
  }
  bool has_news() { return wait(0); }

  size_t poll(size_t most) {
    std::vector<Completion> some(most);
    const size_t count = initiator_.poll(some);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(some[i].outcome, Outcome::kOk);
    return count;
  }

 private:
  Initiator& initiator_;
  const Clock& clock_;
};

void post_reads(Link& link, size_t count) {
  std::vector<Operation> reads;
  for (size_t i = 0; i < count; ++i) reads.push_back(read_operation(link, 0, 0, kBytes, i));
  ASSERT_EQ(post_all(*link.initiator, reads), count);
}

TEST_P(WaitingContract, EveryReadWakesWhoHasArmedAfterItsPost) {
  Link link = make_link(ChannelPurpose::kRead, kBytes);
  Waiter waiter(*link.initiator, harness_->clock());
  for (uint64_t round = 0; round < kRounds; ++round) {
    post_reads(link, 1);
    do {
      ASSERT_TRUE(waiter.wait(kPatience)) << "in round " << round;
    } while (waiter.poll(1) == 0);
  }
}

TEST_P(WaitingContract, WhatIsThereAlreadyNeedsNoWait) {
  Link link = make_link(ChannelPurpose::kRead, kBytes);
  Waiter waiter(*link.initiator, harness_->clock());
  post_reads(link, kReads);
  // A poll that has no room for the others leaves them there.
  for (size_t left = kReads; left > 0; --left) {
    while (waiter.poll(1) == 0) ASSERT_TRUE(waiter.wait(kPatience));
    harness_->settle();
    EXPECT_TRUE(left == 1 || waiter.has_news()) << left;
  }
}

// It waits for room to send, too.
TEST_P(WaitingContract, AWriteThatTheWayCannotHoldAtOnceEnds) {
  constexpr uint64_t kLong = 16 * kMiB;
  Link link = make_link(ChannelPurpose::kStage, kLong);
  Waiter waiter(*link.initiator, harness_->clock());
  const Operation write = write_operation(link, 0, 0, kLong);
  ASSERT_EQ(post_all(*link.initiator, {&write, 1}), 1u);
  while (waiter.poll(1) == 0) ASSERT_TRUE(waiter.wait(kPatience));
  EXPECT_EQ(std::count(link.remote_region.data(), link.remote_region.data() + kLong, kUntouched),
            static_cast<int64_t>(kLong));
}

// Otherwise an event loop would turn for nothing.
TEST_P(WaitingContract, NothingInFlightWakesNobody) {
  Link link = make_link(ChannelPurpose::kRead, kBytes);
  Waiter waiter(*link.initiator, harness_->clock());
  for (uint64_t round = 0; round < kRounds; ++round) {
    post_reads(link, kReads);
    for (size_t got = 0; got < kReads; got += waiter.poll(kReads)) {
      ASSERT_TRUE(waiter.wait(kPatience));
    }
    // Events of what has been polled already.
    for (size_t left = kReads; left > 0 && waiter.has_news(); --left) {
      EXPECT_EQ(waiter.poll(kReads), 0u);
    }
    ASSERT_FALSE(waiter.has_news());
  }
}

TEST_P(WaitingContract, TheEndOfTheChannelNeedsNoWait) {
  Link link = make_link(ChannelPurpose::kRead, kBytes);
  post_reads(link, kReads);
  link.initiator->close();
  EXPECT_EQ(link.initiator->arm(), 0u);
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WaitingContract);

}  // namespace farpage::contract
