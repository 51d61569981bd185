#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "client/runner/ahead_driver.h"
#include "client/runner/lane_driver.h"
#include "client/runner/ticket.h"
#include "tests/support/cluster.h"
#include "tests/support/engine.h"
#include "tests/tier/watched_fabric.h"
#include "tier/fetch/operation_tag.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4 * kKiB;
constexpr uint64_t kPatienceNs = 30 * kSecond;  // no test that passes waits for it

template <typename Runner>
Ticket submit_fetch(Runner& runner, std::span<const PageRequest> requests, uint64_t deadline_ns) {
  Submission* submission = runner.pool()->take();
  submission->kind = SubmissionKind::kFetch;
  submission->requests.assign(requests.begin(), requests.end());
  submission->deadline_ns = deadline_ns;
  Ticket ticket(runner.pool(), *submission);
  runner.submit(*submission);
  return ticket;
}

Ticket submit_exists(LaneRunner& runner, std::span<const PageKey> keys, uint64_t deadline_ns) {
  Submission* submission = runner.pool()->take();
  submission->kind = SubmissionKind::kExists;
  submission->keys.assign(keys.begin(), keys.end());
  submission->deadline_ns = deadline_ns;
  Ticket ticket(runner.pool(), *submission);
  runner.submit(*submission);
  return ticket;
}

class LaneRunnerOver : public testing::TestWithParam<Path> {
 protected:
  uint64_t deadline() const { return client_->clock().now_ns() + kPatienceNs; }

  Cluster cluster_{GetParam()};
  std::unique_ptr<Client> client_ = cluster_.connect();
  Engine engine_{*client_, kPageBytes, 8};
  std::unique_ptr<LaneRunner> runner_ = LaneRunner::start(*client_, {.queue_depth = 4}).value();
};

TEST_P(LaneRunnerOver, FetchesWhatWasPut) {
  ASSERT_EQ(engine_.put(test_key(1), 5).code, Code::kOk);
  const std::array requests = {PageRequest{test_key(1), 0, engine_.slice(3)},
                               PageRequest{test_key(2), 0, engine_.slice(4)}};
  const Ticket ticket = submit_fetch(*runner_, requests, deadline());
  ticket.wait();
  EXPECT_EQ(ticket.verdicts()[0].verdict, Verdict::kReady);
  EXPECT_EQ(engine_.put_number_of(test_key(1), 3), 5u);
  EXPECT_EQ(ticket.verdicts()[1].reason, Reason::kMiss);
}

// By the index: no page is fetched.
TEST_P(LaneRunnerOver, TellsWhichPagesAreThere) {
  for (const uint64_t number : {0, 3, 5}) {
    ASSERT_EQ(engine_.put(test_key(number), 1).code, Code::kOk);
  }
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < 7; ++number) keys.push_back(test_key(number));
  const uint64_t pages_before = runner_->driver().verdicts().ready;
  const Ticket ticket = submit_exists(*runner_, keys, deadline());
  ticket.wait();
  for (uint64_t number = 0; number < 7; ++number) {
    const bool is_there = number == 0 || number == 3 || number == 5;
    const PageVerdict& verdict = ticket.verdicts()[number];
    EXPECT_EQ(verdict.verdict, is_there ? Verdict::kReady : Verdict::kRecompute) << number;
    EXPECT_EQ(verdict.reason, is_there ? Reason::kNone : Reason::kMiss) << number;
  }
  EXPECT_EQ(runner_->driver().verdicts().ready, pages_before);
}

TEST_P(LaneRunnerOver, TellsOfAThousandPagesBesideFetches) {
  constexpr uint64_t kKeys = 1024;
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < kKeys; ++number) {
    keys.push_back(test_key(number));
    if (number % 2 == 0) {
      ASSERT_EQ(engine_.put(test_key(number), 1).code, Code::kOk);
    }
  }
  const std::array requests = {PageRequest{test_key(2), 0, engine_.slice(3)}};
  for (int round = 0; round < 3; ++round) {
    const std::array questions = {submit_exists(*runner_, keys, deadline()),
                                  submit_exists(*runner_, keys, deadline())};
    const Ticket fetch = submit_fetch(*runner_, requests, deadline());
    fetch.wait();
    EXPECT_EQ(fetch.verdicts()[0].verdict, Verdict::kReady);
    for (const Ticket& question : questions) {
      question.wait();
      ASSERT_EQ(question.verdicts().size(), kKeys);
      for (uint64_t number = 0; number < kKeys; ++number) {
        EXPECT_EQ(question.verdicts()[number].reason,
                  number % 2 == 0 ? Reason::kNone : Reason::kMiss);
      }
    }
  }
}

TEST_P(LaneRunnerOver, WithoutTimeNothingIsThere) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  const std::array keys = {test_key(1)};
  const Ticket ticket = submit_exists(*runner_, keys, 0);
  ticket.wait();
  EXPECT_EQ(ticket.verdicts()[0].reason, Reason::kStalled);
}

TEST_P(LaneRunnerOver, EndsWhatIsUnderWayBeforeItGoes) {
  const std::array requests = {PageRequest{test_key(2), 0, engine_.slice(4)}};
  std::vector<Ticket> tickets;
  for (int i = 0; i < 4; ++i) {
    tickets.push_back(submit_fetch(*runner_, requests, client_->clock().now_ns() + kSecond));
  }
  runner_.reset();
  for (const Ticket& ticket : tickets) {
    EXPECT_TRUE(ticket.released());
    EXPECT_EQ(ticket.verdicts()[0].verdict, Verdict::kRecompute);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, LaneRunnerOver, testing::Values(Path::kShm, Path::kTcp), path_name);

// Every third read of an index fails.
class ForgetfulFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;

  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    auto initiator = ForwardingFabric::connect(std::move(offer), deadline_ns);
    if (!initiator) return initiator;
    return std::make_unique<Forgetful>(std::move(*initiator));
  }

 private:
  class Forgetful final : public ForwardingInitiator {
   public:
    using ForwardingInitiator::ForwardingInitiator;
    size_t poll(std::span<Completion> completions) override {
      const size_t count = ForwardingInitiator::poll(completions);
      for (Completion& completion : completions.first(count)) {
        const uint16_t attempt = OperationTag::of(completion.tag).attempt;
        if (attempt >= Lane::kWindow && attempt % 3 == 0) completion.outcome = Outcome::kAborted;
      }
      return count;
    }
  };
};

TEST(LaneRunner, AFetchTellsOfThePagesThatTheIndexLeavesUnknown) {
  Cluster cluster(Path::kTcp);
  AsioRuntime runtime;
  const auto inner = tcp::make_tcp_fabric({}).value();
  ForgetfulFabric fabric(*inner);
  const auto dialer = make_dialer(runtime, cluster.address(), {}, 2'000).value();
  const auto client = Client::connect({.staging_bytes = kMiB}, runtime, fabric, *dialer).value();
  Engine engine(*client, kPageBytes, 1);
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < 200; ++number) {
    keys.push_back(test_key(number));
    if (number % 7 < 3) {
      ASSERT_EQ(engine.put(test_key(number), 1).code, Code::kOk);
    }
  }
  const auto runner = LaneRunner::start(*client, {.queue_depth = 8}).value();
  const Ticket ticket = submit_exists(*runner, keys, client->clock().now_ns() + kPatienceNs);
  ticket.wait();
  for (uint64_t number = 0; number < 200; ++number) {
    const bool is_there = number % 7 < 3;
    EXPECT_EQ(ticket.verdicts()[number].verdict, is_there ? Verdict::kReady : Verdict::kRecompute);
    EXPECT_EQ(ticket.verdicts()[number].reason, is_there ? Reason::kNone : Reason::kMiss);
  }
  EXPECT_GT(runner->driver().verdicts().ready, 10u);
  EXPECT_LT(runner->driver().verdicts().ready, 60u);
}

// However many keys are asked for, the lane looks at a few of them in a turn.
TEST(LaneDriver, AQuestionOfManyKeysTakesManyTurns) {
  constexpr size_t kTurns = 10;
  Cluster cluster;
  const auto client = cluster.connect();
  Engine engine(*client, kPageBytes, 1);
  ASSERT_EQ(engine.put(test_key(1), 1).code, Code::kOk);
  LaneDriver driver = LaneDriver::open(*client).value();
  Submission many;
  many.kind = SubmissionKind::kExists;
  many.keys.assign(kTurns * 1'024, test_key(1));
  many.deadline_ns = client->clock().now_ns() + kPatienceNs;
  auto operation = driver.begin(many, [] {});
  for (size_t turn = 1; turn <= kTurns; ++turn) {
    EXPECT_FALSE(operation->done());
    EXPECT_TRUE(driver.go_on(*operation, many));
    EXPECT_EQ(operation->looked_up, turn * 1'024);
  }
  while (!operation->done()) driver.go_on(*operation, many);
  driver.finish(many);
  EXPECT_TRUE(std::ranges::all_of(many.verdicts, [](const PageVerdict& verdict) {
    return verdict.verdict == Verdict::kReady;
  }));
}

// A fetch whose answer does not come keeps the lane asleep; the next submission wakes it. By itself
// the lane would look again after 10 ms: so many of those are beyond patience.
constexpr uint64_t kManySleeps = 4'000;

template <typename Runner, typename... Options>
void expect_wakes(const Options&... runner_options) {
  NodeOptions options = Cluster::small_options();
  options.reuse_ms = 2 * kPatienceNs / kMillisecond;
  options.lease_ms = 4 * kPatienceNs / kMillisecond;
  Cluster cluster(Path::kTcp, options);
  AsioRuntime runtime;
  const auto inner = tcp::make_tcp_fabric({}).value();
  WatchedFabric fabric(*inner);
  const auto dialer = make_dialer(runtime, cluster.address(), {}, 2'000).value();
  const auto client = Client::connect({.staging_bytes = kMiB}, runtime, fabric, *dialer).value();
  Engine engine(*client, kPageBytes, 4);
  ASSERT_EQ(engine.put(test_key(1), 9).code, Code::kOk);
  const auto runner =
      Runner::start(*client, RunnerOptions{.queue_depth = 32}, runner_options...).value();
  const UniqueFd silent(::eventfd(0, EFD_CLOEXEC));
  fabric.stand_in(silent.get());
  fabric.hold(UINT32_MAX);

  const uint64_t begun_ns = client->clock().now_ns();
  const std::array requests = {PageRequest{test_key(1), 0, engine.slice(2)}};
  const Ticket stalled = submit_fetch(*runner, requests, begun_ns + 2 * kPatienceNs);
  uint64_t arms = 0;
  for (uint64_t i = 0; i < kManySleeps; ++i) {
    while (fabric.arms() == arms) std::this_thread::yield();  // it goes to sleep
    arms = fabric.arms();
    const Ticket other = submit_fetch(*runner, requests, 0);
    ASSERT_TRUE(other.wait_until(begun_ns + kPatienceNs)) << i;
    EXPECT_EQ(other.verdicts()[0].reason, Reason::kStalled);
  }
  EXPECT_FALSE(stalled.done());
  fabric.stand_in(-1);
  fabric.hold(0);
  submit_fetch(*runner, requests, 0).wait();
  stalled.wait();
  EXPECT_EQ(stalled.verdicts()[0].verdict, Verdict::kReady);
  EXPECT_EQ(engine.put_number_of(test_key(1), 2), 9u);
}

TEST(LaneRunner, AStalledFetchKeepsNoOtherWaiting) {
  expect_wakes<LaneRunner>();
}

TEST(AheadRunner, AStalledFetchKeepsNoOtherWaiting) {
  AheadOptions options;
  options.pages = 4;
  expect_wakes<AheadRunner>(options);
}

TEST(LaneRunner, AQuestionThatGetsNoAnswerIsStalledAtItsDeadline) {
  NodeOptions options = Cluster::small_options();
  options.reuse_ms = 2 * kPatienceNs / kMillisecond;
  options.lease_ms = 4 * kPatienceNs / kMillisecond;
  Cluster cluster(Path::kTcp, options);
  AsioRuntime runtime;
  const auto inner = tcp::make_tcp_fabric({}).value();
  WatchedFabric fabric(*inner);
  const auto dialer = make_dialer(runtime, cluster.address(), {}, 2'000).value();
  const auto client = Client::connect({.staging_bytes = kMiB}, runtime, fabric, *dialer).value();
  const auto runner = LaneRunner::start(*client, {.queue_depth = 8}).value();
  const UniqueFd silent(::eventfd(0, EFD_CLOEXEC));
  fabric.stand_in(silent.get());
  fabric.hold(UINT32_MAX);
  const std::array keys = {test_key(1), test_key(2)};
  const uint64_t deadline_ns = client->clock().now_ns() + 50 * kMillisecond;
  const Ticket ticket = submit_exists(*runner, keys, deadline_ns);
  ASSERT_TRUE(ticket.wait_until(deadline_ns + kPatienceNs));
  EXPECT_GE(client->clock().now_ns(), deadline_ns);
  for (const PageVerdict& verdict : ticket.verdicts()) EXPECT_EQ(verdict.reason, Reason::kStalled);
}

}  // namespace
}  // namespace farpage
