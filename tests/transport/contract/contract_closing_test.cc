#include <algorithm>
#include <array>

#include "tests/support/posting.h"
#include "tests/transport/contract/contract.h"

namespace farpage::contract {
namespace {

// I4: after Region's destructor nobody writes its memory, whatever was posted.
TEST_P(FabricContract, LocalMemoryIsNotTouchedOnceItsRegionIsGone) {
  Link link = make_link(ChannelPurpose::kRead, 4096);
  fill(link.remote_region.data(), 4096);
  const Operation read = read_operation(link, 0, 0, 4096);
  ASSERT_EQ(post_all(*link.initiator, {&read, 1}), 1u);
  link.local = Region();
  std::fill(link.memory.begin(), link.memory.end(), kUntouched);
  EXPECT_EQ(collect(*link.initiator, 1).size(), 1u);
  EXPECT_TRUE(untouched(link.memory));
}

TEST_P(FabricContract, ChannelsAreIndependent) {
  Link one = make_link(ChannelPurpose::kRead, 4096);
  Link other = make_link(ChannelPurpose::kRead, 4096);
  fill(other.remote_region.data(), 4096);
  one.initiator->close();
  const Operation read = read_operation(other, 0, 0, 4096);
  ASSERT_EQ(post_all(*other.initiator, {&read, 1}), 1u);
  EXPECT_TRUE(all_ok(collect(*other.initiator, 1)));
  EXPECT_EQ(first_difference(other.memory.data(), 4096, 0), 4096u);
}

TEST_P(FabricContract, WaitReturnsByItsDeadline) {
  Link link = make_link(ChannelPurpose::kRead, 4096);
  const auto wait_at = [&](auto& end) {
    const uint64_t deadline = harness_->clock().now_ns() + 5 * kMillisecond;
    while (harness_->clock().now_ns() < deadline) end.wait(deadline);
    EXPECT_LT(harness_->clock().now_ns(), deadline + kPatience);
    end.wait(0);
  };
  wait_at(*link.initiator);
  wait_at(*link.target);
}

TEST_P(FabricContract, APassedDeadlineStillBringsOneCompletionEach) {
  Link link = make_link(ChannelPurpose::kRead, 256 * 1024);
  std::vector<Operation> reads;
  for (uint64_t i = 0; i < 10; ++i) reads.push_back(read_operation(link, 0, 0, 256 * 1024, i));
  ASSERT_EQ(post_operations(*link.initiator, reads, 0).accepted, 10u);
  const auto ended = collect(*link.initiator, 10);
  EXPECT_EQ(tags(ended), tags_up_to(10));
  for (const Completion& completion : ended) EXPECT_NE(completion.outcome, Outcome::kFailed);
}

// I4: whatever its peer posts.
TEST_P(ProtectionContract, AClosedTargetsMemoryIsReachedByNobody) {
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    Link link = make_link(purpose, 4096);
    Operation operation = read_operation(link, 0, 0, 4096);
    if (purpose == ChannelPurpose::kStage) operation.kind = OperationKind::kWrite;
    link.target->close();
    link.target->close();
    const size_t posted = post_operations(*link.initiator, std::span(&operation, 1)).accepted;
    harness_->settle();
    link.initiator->close();  // a backend may still have hoped for another path
    for (const Completion& completion : collect(*link.initiator, posted)) {
      EXPECT_NE(completion.outcome, Outcome::kOk);
    }
    EXPECT_TRUE(untouched(link.memory));
    EXPECT_EQ(link.remote_region.data()[0], std::byte{0});
  }
}

// I4.
TEST_P(ClosingContract, CloseEndsEverythingAndNothingLandsAfterwards) {
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    constexpr uint64_t kCount = 64;
    Link link = make_link(purpose, kCount * 1024);
    std::vector<Operation> operations;
    for (uint64_t i = 0; i < kCount; ++i) {
      operations.push_back(read_operation(link, i * 1024, i * 1024, 1024, i));
      if (purpose == ChannelPurpose::kStage) operations.back().kind = OperationKind::kWrite;
    }
    ASSERT_EQ(post_all(*link.initiator, operations), kCount);
    std::array<Completion, 16> some;
    link.initiator->wait(harness_->clock().now_ns() + 20 * kMicrosecond);
    std::vector<Completion> ended(some.begin(), some.begin() + link.initiator->poll(some));
    link.initiator->close();
    const auto rest = collect(*link.initiator, kCount - ended.size());
    for (const Completion& completion : rest) {
      if (!GetParam().injects_failures) {
        EXPECT_NE(completion.outcome, Outcome::kFailed);
      }
    }
    ended.insert(ended.end(), rest.begin(), rest.end());
    EXPECT_EQ(tags(ended), tags_up_to(kCount));
    // Earlier operations may be on their way still: the peer's own end stops them.
    if (purpose == ChannelPurpose::kStage) link.target->close();

    std::fill(link.memory.begin(), link.memory.end(), kUntouched);
    std::fill_n(link.remote_region.data(), link.remote_region.bytes(), kUntouched);
    fill(purpose == ChannelPurpose::kRead ? link.remote_region.data() : link.memory.data(),
         kCount * 1024);
    harness_->settle();
    const std::byte* landing =
        purpose == ChannelPurpose::kRead ? link.memory.data() : link.remote_region.data();
    EXPECT_TRUE(
        std::all_of(landing, landing + kCount * 1024, [](std::byte b) { return b == kUntouched; }));
    Completion more;
    EXPECT_EQ(link.initiator->poll({&more, 1}), 0u);
  }
}

TEST_P(ClosingContract, AClosedChannelEndsWhatIsPostedAsAborted) {
  Link link = make_link(ChannelPurpose::kRead, 4096);
  link.initiator->close();
  link.initiator->close();
  const Operation read = read_operation(link, 0, 0, 64);
  const Posted posted = post_operations(*link.initiator, {&read, 1});
  EXPECT_EQ(posted.accepted, 1u);
  EXPECT_EQ(posted.status.code, Code::kUnavailable);
  const auto ended = collect(*link.initiator, 1);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, Outcome::kAborted);
  harness_->settle();
  EXPECT_TRUE(untouched(link.memory));
}

TEST_P(ClosingContract, EndsMayGoInEitherOrderWithOperationsInFlight) {
  for (const bool initiator_first : {true, false}) {
    for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
      Link link = make_link(purpose, 64 * 1024);
      std::vector<Operation> operations;
      for (uint64_t i = 0; i < 16; ++i) {
        operations.push_back(read_operation(link, 0, 0, 64 * 1024, i));
        if (purpose == ChannelPurpose::kRead) continue;
        operations.back().kind = OperationKind::kWrite;
        operations.back().has_immediate = true;
      }
      ASSERT_EQ(post_all(*link.initiator, operations), 16u);
      if (!initiator_first) link.target.reset();
      if (initiator_first) link.initiator.reset();
      harness_->settle();
      if (initiator_first) {
        std::fill(link.memory.begin(), link.memory.end(), kUntouched);
        harness_->settle();
        EXPECT_TRUE(untouched(link.memory));
      }
      link.target.reset();
      link.initiator.reset();
      harness_->settle();
    }
  }
}

}  // namespace
}  // namespace farpage::contract
