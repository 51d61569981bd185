// Rule 16: immediates that nobody polls are kept, as many as there are receives, and then end
// their sender alone.
#include "tests/support/posting.h"
#include "tests/transport/verbs/softroce.h"
#include "tests/transport/verbs/verbs_backends.h"
#include "transport/verbs/target.h"

namespace farpage::contract {
namespace {

constexpr uint64_t kReceives = verbs::TargetEnd::kReceives;

class VerbsReceiveQueue : public ContractTest {
 protected:
  // Writes of nothing but an immediate, numbered from `first` on.
  static std::vector<Operation> immediates(const Link& link, uint64_t first, uint64_t count) {
    std::vector<Operation> writes;
    for (uint64_t i = first; i < first + count; ++i) {
      writes.push_back(write_operation(link, 0, 0, 0, i));
      writes.back().has_immediate = true;
      writes.back().immediate = static_cast<uint32_t>(i);
    }
    return writes;
  }

  void expect_immediates(Target& target, uint64_t first, uint64_t count) {
    const auto arrived = collect(target, count);
    ASSERT_EQ(arrived.size(), count);
    for (uint64_t i = 0; i < count; ++i) EXPECT_EQ(arrived[i], first + i);
  }
};

INSTANTIATE_TEST_SUITE_P(Verbs, VerbsReceiveQueue,
                         testing::Values(one_device(), over_the_network()), backend_name);

TEST_P(VerbsReceiveQueue, WhatIsPolledMakesRoomForAsMany) {
  Link link = make_link(ChannelPurpose::kStage, 4096);
  ASSERT_EQ(post_all(*link.initiator, immediates(link, 0, kReceives)), kReceives);
  EXPECT_TRUE(all_ok(collect(*link.initiator, kReceives)));
  uint64_t polled = 0;
  for (const uint64_t count : {uint64_t{1}, uint64_t{100}, kReceives}) {
    expect_immediates(*link.target, polled, count);
    polled += count;
    ASSERT_EQ(post_all(*link.initiator, immediates(link, polled + kReceives - count, count)),
              count);
    EXPECT_TRUE(all_ok(collect(*link.initiator, count)));
  }
  expect_immediates(*link.target, polled, kReceives);
}

// I3, I4.
TEST_P(VerbsReceiveQueue, ImmediatesThatNobodyPollsEndTheirSenderAlone) {
  constexpr uint64_t kTooMany = 40;
  Link link = make_link(ChannelPurpose::kStage, 4096);
  Link other = make_link(ChannelPurpose::kStage, 4096);
  Link reader = make_link(ChannelPurpose::kRead, 4096);
  ASSERT_EQ(post_all(*link.initiator, immediates(link, 0, kReceives)), kReceives);
  EXPECT_TRUE(all_ok(collect(*link.initiator, kReceives)));
  const std::string device = GetParam().name == "one_device" ? "rxe0" : "rxe2";
  const uint64_t not_ready = device_counter(device, "send_rnr_err");

  const uint64_t begin_ns = harness_->clock().now_ns();
  ASSERT_EQ(post_all(*link.initiator, immediates(link, kReceives, kTooMany)), kTooMany);
  const auto ended = collect(*link.initiator, kTooMany);
  EXPECT_LT(harness_->clock().now_ns() - begin_ns, 2 * kSecond);
  ASSERT_EQ(ended.size(), kTooMany);
  EXPECT_EQ(ended[0].outcome, Outcome::kFailed);
  EXPECT_EQ(ended[0].vendor, IBV_WC_RNR_RETRY_EXC_ERR);
  for (uint64_t i = 0; i < kTooMany; ++i) {
    EXPECT_EQ(ended[i].tag, kReceives + i);
    EXPECT_NE(ended[i].outcome, Outcome::kOk);
  }
  EXPECT_GT(device_counter(device, "send_rnr_err"), not_ready);
  const Operation late = immediates(link, 0, 1)[0];
  EXPECT_EQ(post_operations(*link.initiator, {&late, 1}).status.code, Code::kUnavailable);

  expect_immediates(*link.target, 0, kReceives);
  harness_->settle();
  uint32_t more = 0;
  EXPECT_EQ(link.target->poll({&more, 1}), 0u);

  ASSERT_EQ(post_all(*other.initiator, immediates(other, 9, 1)), 1u);
  expect_immediates(*other.target, 9, 1);
  const Operation read = read_operation(reader, 0, 0, 4096);
  ASSERT_EQ(post_all(*reader.initiator, {&read, 1}), 1u);
  EXPECT_TRUE(all_ok(collect(*reader.initiator, 1)));
}

}  // namespace
}  // namespace farpage::contract
