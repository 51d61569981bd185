// How a wait passes its time, as the device sees it: how often it is polled, and how often asked to
// wake somebody.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/clock.h"
#include "tests/support/posting.h"
#include "tests/transport/verbs/softroce.h"
#include "transport/verbs/paths/device.h"
#include "transport/verbs/verbs_fabric.h"

namespace farpage::contract {
namespace {

// A read takes two of these, which is longer than it is polled for, and less than what the
// transport has patience for.
constexpr const char* kSlow = "delay 100ms";
constexpr uint64_t kSpinUs = 50'000;
constexpr uint64_t kPatienceNs = 20 * kSecond;
constexpr uint64_t kMany = 10;  // polls; each takes microseconds

// The calls of the client's device. One thread.
struct Asked {
  uint64_t polls = 0;  // since the last arming
  uint64_t polls_before = 0;
  uint64_t arms = 0;
};
Asked asked;
ibv_context_ops real;

int count_poll(ibv_cq* queue, int most, ibv_wc* completions) {
  ++asked.polls;
  return real.poll_cq(queue, most, completions);
}

int count_arm(ibv_cq* queue, int solicited_only) {
  if (asked.arms == 0) asked.polls_before = asked.polls;
  asked.polls = 0;
  ++asked.arms;
  return real.req_notify_cq(queue, solicited_only);
}

// The context is librdmacm's, and so the one that fabrics use.
class Counting {
 public:
  Counting() : devices_(verbs::Devices::open({"rxe0"}).value()), ops_((*devices_)[0].context->ops) {
    real = ops_;
    asked = {};
    ops_.poll_cq = count_poll;
    ops_.req_notify_cq = count_arm;
  }
  ~Counting() {
    ops_.poll_cq = real.poll_cq;
    ops_.req_notify_cq = real.req_notify_cq;
  }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  std::shared_ptr<const verbs::Devices> devices_;
  ibv_context_ops& ops_;
};

class VerbsWaiting : public testing::Test {
 protected:
  // The calls of the device in one wait for one slow read.
  static Asked wait_for_a_read(uint64_t spin_us) {
    constexpr uint64_t kBytes = 4096;
    const auto node = verbs::make_verbs_fabric({.devices = {"rxe2"}}).value();
    const auto client = verbs::make_verbs_fabric({.devices = {"rxe0"}, .spin_us = spin_us}).value();
    const Region pool = node->allocate_readable(kBytes).value();
    std::vector<std::byte> memory(kBytes);
    const Region local =
        client->register_local({.data = memory.data(), .bytes = memory.size()}).value();
    auto offered = node->offer_channel(ChannelPurpose::kRead).value();
    const auto channel =
        client->connect(std::move(offered.offer), boottime_clock().now_ns() + kPatienceNs).value();
    Operation read;
    read.remote = import_whole(*channel, node->export_region(pool).value()).value();
    read.local_count = 1;
    read.local[0] = local.slice(0, kBytes);
    Completion ended;

    const NetworkFault slow(kSlow);
    Asked during;
    {
      const Counting counting;
      EXPECT_EQ(post_operations(*channel, {&read, 1}).accepted, 1u);
      asked = {};
      channel->wait(boottime_clock().now_ns() + kPatienceNs);
      during = asked;
    }
    EXPECT_EQ(channel->poll({&ended, 1}), 1u) << "it waits until there is something";
    EXPECT_EQ(ended.outcome, Outcome::kOk);
    EXPECT_GT(slow.sent(), 0u) << "the fault has hit nothing";
    return during;
  }
};

TEST_F(VerbsWaiting, PollsForAWhileAndThenSleepsUntilItIsWoken) {
  const Asked during = wait_for_a_read(kSpinUs);
  EXPECT_GE(during.polls_before, kMany) << "it has polled";
  EXPECT_EQ(during.arms, 1u) << "then it has slept";
  EXPECT_EQ(during.polls, 1u) << "after one look at what came before it was armed";
}

TEST_F(VerbsWaiting, WithoutSpinningItSleepsAtOnce) {
  const Asked during = wait_for_a_read(0);
  EXPECT_EQ(during.polls_before, 0u);
  EXPECT_EQ(during.arms, 1u);
  EXPECT_EQ(during.polls, 1u);
}

TEST_F(VerbsWaiting, WithASecondItNeverSleeps) {
  const Asked during = wait_for_a_read(1'000'000);
  EXPECT_EQ(during.arms, 0u);
  EXPECT_GE(during.polls, kMany);
}

}  // namespace
}  // namespace farpage::contract
