// Keys looked up in an index by reads of its buckets.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "tests/support/cluster.h"
#include "tests/tier/fleet.h"

namespace farpage {
namespace {

using fault::FaultKind;

constexpr size_t kMostKeys = 1024;

std::vector<PageKey> numbered_keys(uint64_t count) {
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < count; ++number) keys.push_back(test_key(number));
  return keys;
}

KeyAnswer truth(uint64_t number) {
  return number % 2 == 0 ? KeyAnswer::kShown : KeyAnswer::kAbsent;
}

// Of pages whose number is even.
void put_half(Engine& engine, uint64_t count) {
  for (uint64_t number = 0; number < count; number += 2) {
    ASSERT_EQ(engine.put(test_key(number), 1).code, Code::kOk);
  }
}

void expect_truth(std::span<const KeyAnswer> answers) {
  for (uint64_t number = 0; number < answers.size(); ++number) {
    EXPECT_EQ(answers[number], truth(number)) << number;
  }
}

// Whose answers a busy machine may bring late.
NodeOptions patient() {
  NodeOptions options = Cluster::small_options();
  options.reuse_ms = 60'000;
  options.lease_ms = 600'000;
  return options;
}

class IndexQuestionOver : public testing::TestWithParam<Path> {};

TEST_P(IndexQuestionOver, TellsWhichPagesAreThere) {
  Cluster cluster(GetParam(), patient());
  const auto client = cluster.connect();
  Engine engine(*client, 4 * kKiB, 1);
  put_half(engine, kMostKeys);
  const std::vector<PageKey> keys = numbered_keys(kMostKeys);
  std::vector<KeyAnswer> answers(kMostKeys);
  for (int round = 0; round < 3; ++round) {
    IndexQuestion question = engine.lane().ask(keys, answers, engine.deadline());
    question.wait();
    expect_truth(answers);
  }
  engine.lane().ask({}, {}, engine.deadline()).wait();
}

INSTANTIATE_TEST_SUITE_P(Paths, IndexQuestionOver,
                         testing::Values(Path::kShm, Path::kTcp, Path::kTls), path_name);

// All keys are posted before the first has its answer.
TEST(IndexQuestionOverTcp, IsOneRoundTripForAThousandKeys) {
  Cluster cluster(Path::kTcp, patient());
  const auto client = cluster.connect();
  Engine engine(*client, 4 * kKiB, 1);
  put_half(engine, kMostKeys);
  const std::vector<PageKey> keys = numbered_keys(kMostKeys);
  std::vector<KeyAnswer> answers(kMostKeys);
  const LaneStats before = engine.lane().stats();
  engine.lane().ask(keys, answers, engine.deadline()).wait();
  const LaneStats after = engine.lane().stats();
  expect_truth(answers);
  EXPECT_EQ(after.posts - before.posts, 1u);
  EXPECT_GT(after.operations - before.operations, kMostKeys);
  EXPECT_LE(after.operations - before.operations, 2 * kMostKeys);
}

// One node, in virtual time. Every operation takes three steps of the same time.
class SimQuestion : public testing::Test {
 protected:
  static constexpr uint64_t kStepNs = 100 * kMicrosecond;
  static constexpr uint64_t kTripNs = 3 * kStepNs;

  SimQuestion() : cluster_(1, options()), client_(cluster_.connect().value()) {
    engine_.emplace(*client_, kPageBytes, Lane::kWindow);
    put_half(*engine_, 64);
    sim::SimOptions slow;
    slow.delay_min_ns = slow.delay_max_ns = kStepNs;
    cluster_.set_network(slow);
  }
  static SimClusterOptions options() {
    SimClusterOptions options;
    options.node.pool_bytes = 2 * kMostKeys * (kPageBytes + sizeof(PageHeader));
    return options;
  }
  uint64_t now() const { return cluster_.now_ns(); }
  Lane& lane() { return engine_->lane(); }
  // Keys that the channel has room for beside all that fetches may post.
  size_t room() {
    const size_t most = cluster_.client_fabric(0).capabilities().max_in_flight;
    return (most - 2 * Lane::kWindow) / 2;
  }
  // Nobody drives the lane for so long after the begin.
  std::vector<KeyAnswer> ask(size_t count, uint64_t in_ns = kSecond, uint64_t undriven_ns = 0) {
    const std::vector<PageKey> keys = numbered_keys(count);
    std::vector<KeyAnswer> answers(count);
    IndexQuestion question = lane().ask(keys, answers, engine_->deadline(in_ns));
    if (undriven_ns > 0) cluster_.world().run_until(now() + undriven_ns);
    question.wait();
    return answers;
  }
  size_t unknown(const std::vector<KeyAnswer>& answers) {
    return static_cast<size_t>(std::ranges::count(answers, KeyAnswer::kUnknown));
  }
  // Until the lane has a path, and its places are free again.
  void expect_answers_again() {
    const uint64_t until = now() + kSecond;
    while (unknown(ask(64)) > 0 && now() < until) lane().wait(now() + kMillisecond);
    expect_truth(ask(64));
  }

  SimCluster cluster_;
  std::unique_ptr<Client> client_;
  std::optional<Engine> engine_;
};

TEST_F(SimQuestion, IsOneRoundTripForAsManyKeysAsTheChannelHasRoomFor) {
  put_half(*engine_, room());
  const uint64_t begun_ns = now();
  expect_truth(ask(room()));
  EXPECT_EQ(now() - begun_ns, kTripNs);
}

TEST_F(SimQuestion, FillsTheChannelAgainAsItsReadsEnd) {
  put_half(*engine_, kMostKeys);
  const uint64_t begun_ns = now();
  expect_truth(ask(kMostKeys));
  EXPECT_EQ(now() - begun_ns, (kMostKeys + room() - 1) / room() * kTripNs);
}

TEST_F(SimQuestion, TwoAtOneTimeShareTheChannel) {
  const std::vector<PageKey> many = numbered_keys(8 * room());
  std::vector<KeyAnswer> of_many(many.size());
  const std::vector<PageKey> few = numbered_keys(20);
  std::vector<KeyAnswer> of_few(few.size());
  const uint64_t begun_ns = now();
  IndexQuestion first = lane().ask(many, of_many, engine_->deadline());
  IndexQuestion second = lane().ask(few, of_few, engine_->deadline());
  second.wait();
  EXPECT_LE(now() - begun_ns, 2 * kTripNs);
  EXPECT_FALSE(first.done());
  expect_truth(of_few);
  first.wait();
  expect_truth(std::span(of_many).first(64));
  EXPECT_EQ(std::ranges::count(std::span(of_many).subspan(64), KeyAnswer::kAbsent),
            static_cast<ptrdiff_t>(many.size() - 64));
}

TEST_F(SimQuestion, FetchesGoOnBesideIt) {
  const std::vector<PageKey> keys = numbered_keys(20 * room());
  std::vector<KeyAnswer> answers(keys.size());
  std::vector<PageRequest> requests;
  for (size_t i = 0; i < Lane::kWindow; ++i) {
    requests.push_back({test_key(i % 32 * 2), 0, engine_->slice(i)});
  }
  std::vector<PageVerdict> verdicts(requests.size());
  lane().fetch(requests, verdicts, engine_->deadline()).wait();  // they are located now
  const uint64_t begun_ns = now();
  IndexQuestion question = lane().ask(keys, answers, engine_->deadline());
  for (uint64_t round = 1; round <= 10; ++round) {
    lane().fetch(requests, verdicts, engine_->deadline()).wait();
    EXPECT_EQ(now() - begun_ns, round * kTripNs);
    EXPECT_TRUE(std::ranges::all_of(
        verdicts, [](const auto& verdict) { return verdict.verdict == Verdict::kReady; }));
  }
  EXPECT_FALSE(question.done());
  question.wait();
  EXPECT_EQ(now() - begun_ns, 20 * kTripNs);
  EXPECT_EQ(unknown(answers), 0u);
}

TEST_F(SimQuestion, StaysUnknownOnceItsTimeIsOver) {
  cluster_.part(cluster_.client_host(0), cluster_.node_host(0));
  for (int round = 0; round < 4;
       ++round) {  // together they ask for more keys than there are places
    const uint64_t begun_ns = now();
    const std::vector<KeyAnswer> answers = ask(room(), kTripNs);
    EXPECT_EQ(unknown(answers), answers.size());
    EXPECT_EQ(now() - begun_ns, kTripNs);
  }
  EXPECT_EQ(unknown(ask(4, 0)), 4u);
  cluster_.heal_all();
  expect_answers_again();
}

// What a silent node would bring could not be used after the `read_window`: its path ends.
TEST_F(SimQuestion, StaysUnknownOnceItsReadsAreTooOld) {
  cluster_.part(cluster_.client_host(0), cluster_.node_host(0));
  const uint64_t begun_ns = now();
  EXPECT_EQ(unknown(ask(8)), 8u);
  EXPECT_GE(now() - begun_ns, 2 * kMillisecond);
  EXPECT_LT(now() - begun_ns, 3 * kMillisecond);
  EXPECT_EQ(lane().stats().channels_ended, 1u);
  cluster_.heal_all();
  expect_answers_again();
}

TEST_F(SimQuestion, BelievesNothingThatTookTheReadWindow) {
  expect_truth(ask(8, kSecond, 2 * kMillisecond - 1));
  EXPECT_EQ(unknown(ask(8, kSecond, 2 * kMillisecond)), 8u);
}

TEST_F(SimQuestion, StaysUnknownWhenItsNodeDies) {
  for (const NodeEnd end : {NodeEnd::kStopped, NodeEnd::kKilled, NodeEnd::kPowerLost}) {
    const std::vector<PageKey> keys = numbered_keys(8);
    std::vector<KeyAnswer> answers(keys.size());
    const uint64_t begun_ns = now();
    IndexQuestion question = lane().ask(keys, answers, engine_->deadline());
    cluster_.end_node(end);
    question.wait();
    EXPECT_LT(now() - begun_ns, 5 * kMillisecond);
    // What is mapped of a killed one can still be read.
    EXPECT_EQ(unknown(answers), end == NodeEnd::kKilled ? 0u : answers.size());
    cluster_.world().run_until(now() + kView);
    EXPECT_EQ(unknown(ask(8)), 8u);
    cluster_.start_node();
    const uint64_t until = now() + kSecond;
    while (unknown(ask(8)) > 0 && now() < until) lane().wait(now() + kMillisecond);
    cluster_.world().run_until(now() + 2 * kView);
    put_half(*engine_, 64);
    expect_answers_again();
  }
}

TEST_F(SimQuestion, BelievesNothingUnderALeaseThatHasEndedMeanwhile) {
  cluster_.silence_links();
  const uint64_t until = now() + 2 * kView;
  bool has_ended_meanwhile = false;
  while (now() < until) {
    const uint64_t posts = lane().stats().posts;
    const bool is_unknown = unknown(ask(1, kSecond, kMillisecond)) > 0;
    has_ended_meanwhile |= is_unknown && lane().stats().posts > posts;
  }
  EXPECT_TRUE(has_ended_meanwhile);
}

TEST_F(SimQuestion, MayGoBeforeItsReadsHaveEnded) {
  for (int round = 0; round < 4; ++round) {
    const std::vector<PageKey> keys = numbered_keys(room());
    std::vector<KeyAnswer> answers(keys.size());
    IndexQuestion question = lane().ask(keys, answers, engine_->deadline());
    cluster_.world().run_until(now() + kStepNs);
  }
  expect_truth(ask(64));
}

TEST_F(SimQuestion, MayGoWithItsLane) {
  const std::vector<PageKey> keys = numbered_keys(room());
  std::vector<KeyAnswer> answers(keys.size());
  {
    Lane lane = client_->open_lane().value();
    IndexQuestion question = lane.ask(keys, answers, engine_->deadline());
    cluster_.world().run_until(now() + kStepNs + 1);
  }
  cluster_.world().run_until(now() + kTripNs);
  EXPECT_EQ(unknown(answers), answers.size());
}

// Several nodes.
class FleetQuestion : public FleetTest {
 protected:
  FleetQuestion() { put_half(engine(), 64); }
  std::vector<KeyAnswer> ask(uint64_t in_ns = kSecond) {
    const std::vector<PageKey> keys = numbered_keys(64);
    std::vector<KeyAnswer> answers(keys.size());
    engine().lane().ask(keys, answers, engine().deadline(in_ns)).wait();
    return answers;
  }
};

TEST_F(FleetQuestion, AsksEachKeysPrimary) {
  const std::vector<KeyAnswer> answers = ask();
  for (uint64_t number = 0; number < answers.size(); ++number) {
    // Another replica may have what the primary has not.
    EXPECT_EQ(answers[number], number % 2 == 0 ? KeyAnswer::kShown : KeyAnswer::kUnknown);
  }
}

TEST_F(FleetQuestion, LeavesTimeToAskAnother) {
  cluster_.part(cluster_.client_host(0), cluster_.node_host(1));
  const uint64_t begun_ns = now();
  const std::vector<KeyAnswer> answers = ask(kMillisecond);
  EXPECT_LE(now() - begun_ns, kMillisecond / 2 + 20 * kMicrosecond);
  size_t silent = 0;
  for (uint64_t number = 0; number < answers.size(); number += 2) {
    const bool is_silent = nodes_of(test_key(number))[0] == 1;
    silent += is_silent;
    EXPECT_EQ(answers[number], is_silent ? KeyAnswer::kUnknown : KeyAnswer::kShown);
  }
  EXPECT_GT(silent, 0u);
}

TEST_F(FleetQuestion, AFailedReadIsNoAnswer) {
  inject(FaultKind::kFailed, 1);
  const std::vector<KeyAnswer> answers = ask();
  EXPECT_EQ(faulty_.injected().of(FaultKind::kFailed), 1u);
  EXPECT_GT(std::ranges::count(answers, KeyAnswer::kUnknown), 32);
  for (uint64_t number = 1; number < answers.size(); number += 2) {
    EXPECT_EQ(answers[number], KeyAnswer::kUnknown);
  }
}

TEST_F(FleetQuestion, AnAnswerThatComesTwiceCountsOnce) {
  inject(FaultKind::kDuplicated, 1000);
  for (int round = 0; round < 4; ++round) {
    const std::vector<KeyAnswer> answers = ask();
    for (uint64_t number = 0; number < answers.size(); number += 2) {
      EXPECT_EQ(answers[number], KeyAnswer::kShown);
    }
  }
}

// Reads that last for longer than another epoch takes to begin, and a client to hear of it.
class LongQuestion : public FleetTest {
 protected:
  LongQuestion() : FleetTest(options()) {
    EXPECT_EQ(engine().put(key_, 1).code, Code::kOk);
    sim::SimOptions slow;
    slow.delay_min_ns = slow.delay_max_ns = 28 * kMillisecond;  // each of three steps
    cluster_.set_network(slow);
  }
  static SimClusterOptions options() {
    SimClusterOptions options = registered_nodes();
    options.node.lease_ms = 100;
    options.node.reuse_ms = 90;
    return options;
  }
  const PageKey key_ = test_key(1);
};

TEST_F(LongQuestion, BelievesNothingOfTheEpochBefore) {
  KeyAnswer answer = KeyAnswer::kUnknown;
  const auto ask = [&] { return engine().lane().ask({&key_, 1}, {&answer, 1}, now() + kSecond); };
  ask().wait();
  EXPECT_EQ(answer, KeyAnswer::kShown);
  IndexQuestion question = ask();
  Epoch next = epoch();
  ++next.number;
  cluster_.epochs()
      ->access(cluster_.client_host(0), cluster_.client_fabric(0).runtime())
      ->replace(next.number - 1, next, [](const Result<void>& begun) { EXPECT_TRUE(begun); });
  question.wait();
  EXPECT_EQ(answer, KeyAnswer::kUnknown);
  EXPECT_EQ(epoch().number, next.number);
}

}  // namespace
}  // namespace farpage
