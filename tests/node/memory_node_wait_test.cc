// A commit's waits, to the nanosecond: its immediate, a slot's reuse time, the lease of the run
// before.
#include <gtest/gtest.h>

#include "tests/node/sim_node.h"

namespace farpage {
namespace {

void expect_all(const CommitAnswer& answer, size_t pages, Code code) {
  EXPECT_EQ(answer.times, 1);
  ASSERT_EQ(answer.results.size(), pages);
  for (const CommitResult& result : answer.results) {
    EXPECT_EQ(result.code, code);
    EXPECT_EQ(result.version != 0, code == Code::kOk);
  }
}

TEST(MemoryNodeWait, ImmediateThatNeverComesEndsAtItsPatience) {
  SimNode node;
  SimClient client(node);
  const CommitPage page = client.stage(1, 0, 512);
  const uint64_t start = node.now();
  const auto answer = client.commit(make_immediate(3, 1), {page, page, page}, 7 * kMillisecond + 1);
  node.run_for(kSecond);
  expect_all(*answer, 3, Code::kAborted);
  EXPECT_EQ(answer->at_ns, start + 7 * kMillisecond + 1);
  EXPECT_EQ(node.status(client.id()).puts_refused, 3u);
}

TEST(MemoryNodeWait, ImmediateThatComesLateIsWaitedFor) {
  SimNode node;
  SimClient client(node);
  const CommitPage page = client.stage(1, 0, 512);
  const auto answer = client.commit(make_immediate(0, 1), {page});
  node.run_for(50 * kMillisecond);
  ASSERT_EQ(answer->times, 0);
  client.send(512);
  node.run_for(kMillisecond);
  expect_all(*answer, 1, Code::kOk);
}

TEST(MemoryNodeWait, ClientWithoutStagingCannotPut) {
  SimNode node;
  const ClientId client = node.service().connected().value();
  ASSERT_TRUE(std::holds_alternative<HelloReply>(node.ask(client, HelloRequest{})));
  std::optional<Reply> answer;
  node.service().handle(client, CommitRequest{1, kMillisecond, {CommitPage{sim_key(1), 0, 1, 0}}},
                        [&](Reply reply) { answer = std::move(reply); });
  node.run_for(kSecond);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(std::get<CommitReply>(*answer).results[0].code, Code::kAborted);
}

TEST(MemoryNodeWait, EndlessPatienceHasAnEnd) {
  SimNode node;
  SimClient client(node);
  const uint64_t start = node.now();
  const auto answer =
      client.commit(make_immediate(3, 1), {CommitPage{sim_key(1), 0, 1, 0}}, UINT64_MAX);
  node.run_for(100 * kSecond);
  expect_all(*answer, 1, Code::kAborted);
  EXPECT_EQ(answer->at_ns, start + 60 * kSecond);
}

TEST(MemoryNodeWait, PutSucceedsExactlyWhenASlotHasCooled) {
  SimNode node(SimNode::of_slots(1));
  SimClient client(node);
  ASSERT_EQ(client.put(1).code, Code::kOk);
  const CommitPage page = client.stage(2, 0, 512);
  const uint32_t immediate = client.send_and_arrive(512);
  const uint64_t start = node.now();
  const auto answer = client.commit(immediate, {page}, node.cooling_ns());
  node.run_for(node.cooling_ns() - 1);
  EXPECT_EQ(answer->times, 0);
  node.run_for(kSecond);
  expect_all(*answer, 1, Code::kOk);
  EXPECT_EQ(answer->at_ns, start + node.cooling_ns());
}

TEST(MemoryNodeWait, PutThatHasNoSlotInTimeIsExhausted) {
  SimNode node(SimNode::of_slots(1));
  SimClient client(node);
  ASSERT_EQ(client.put(1).code, Code::kOk);
  const CommitPage page = client.stage(2, 0, 512);
  const uint32_t immediate = client.send_and_arrive(512);
  const uint64_t start = node.now();
  const auto answer = client.commit(immediate, {page}, node.cooling_ns() - 1);
  node.run_for(kSecond);
  expect_all(*answer, 1, Code::kExhausted);
  EXPECT_EQ(answer->at_ns, start + node.cooling_ns() - 1);
}

TEST(MemoryNodeWait, CommitOfMorePagesThanSlotsGoesThroughInTurns) {
  SimNode node(SimNode::of_slots(4));
  SimClient client(node);
  std::vector<CommitPage> pages;
  for (uint64_t i = 0; i < 12; ++i) pages.push_back(client.stage(i, i * 1024, 1024));
  const uint32_t immediate = client.send_and_arrive(12 * 1024);
  const auto answer = client.commit(immediate, pages, 10 * kSecond);
  node.run_for(10 * kSecond);
  expect_all(*answer, 12, Code::kOk);
  for (size_t i = 1; i < 12; ++i) {
    EXPECT_GT(answer->results[i].version, answer->results[i - 1].version);
  }
}

TEST(MemoryNodeWait, WithoutEvictionOnlyARemovalMakesRoom) {
  SimNode node(SimNode::of_slots(1, false));
  SimClient client(node);
  ASSERT_EQ(client.put(1).code, Code::kOk);
  EXPECT_EQ(client.put(2, 100 * kMillisecond).code, Code::kExhausted);
  const CommitPage page = client.stage(2, 0, 512);
  const uint32_t immediate = client.send_and_arrive(512);
  const auto answer = client.commit(immediate, {page}, kSecond);
  node.run_for(100 * kMillisecond);
  ASSERT_EQ(answer->times, 0);
  const uint64_t removed = node.now();
  const auto reply = node.ask(client.id(), RemoveRequest{{sim_key(1)}});
  ASSERT_EQ(std::get<RemoveReply>(reply).removed, 1u);
  node.run_for(kSecond);
  expect_all(*answer, 1, Code::kOk);
  EXPECT_EQ(answer->at_ns, removed + node.cooling_ns());
}

TEST(MemoryNodeWait, OneWaitingClientHoldsUpNobody) {
  SimNode node;
  SimClient stuck(node);
  SimClient other(node);
  const auto answer = stuck.commit(make_immediate(9, 9), {CommitPage{sim_key(1), 0, 1, 0}});
  EXPECT_EQ(other.put(5).code, Code::kOk);
  EXPECT_EQ(answer->times, 0);
}

TEST(MemoryNodeWait, CommitsLargerThanOneTurnOfTheNodeEnd) {
  NodeOptions options = SimNode::small_options();
  options.page_bytes = kMiB;
  options.pool_bytes = 64 * (kMiB + 64);
  SimNode node(options);
  SimClient first(node, 12 * kMiB);
  SimClient second(node, kMiB);
  std::vector<CommitPage> pages;
  for (uint64_t i = 0; i < 12; ++i) pages.push_back(first.stage(i, i * kMiB, kMiB));
  const CommitPage page = second.stage(50, 0, 512);
  const uint32_t many = first.send_and_arrive(12 * kMiB);
  const uint32_t one = second.send_and_arrive(512);
  const auto large = first.commit(many, pages);
  EXPECT_EQ(large->times, 0) << "a turn ends before twelve megabytes";
  const auto small = second.commit(one, {page});
  node.run_for(kMillisecond);
  expect_all(*large, 12, Code::kOk);
  expect_all(*small, 1, Code::kOk);
}

TEST(MemoryNodeWait, ClientThatVanishesTakesItsCommitsAlong) {
  SimNode node(SimNode::of_slots(1));
  auto client = std::make_unique<SimClient>(node);
  SimClient other(node);
  ASSERT_EQ(client->put(1).code, Code::kOk);
  const CommitPage page = client->stage(2, 0, 512);
  const uint32_t immediate = client->send_and_arrive(512);
  const auto for_slot = client->commit(immediate, {page});
  const auto for_arrival = client->commit(make_immediate(0, 100), {page});
  const uint64_t since = node.now();
  node.run_for(kMillisecond);
  node.service().disconnected(client->id());
  client.reset();
  EXPECT_EQ(other.put(3).code, Code::kOk);
  EXPECT_GE(node.now(), since + node.cooling_ns());
  node.run_for(10 * kSecond);
  EXPECT_EQ(for_slot->times, 0);
  EXPECT_EQ(for_arrival->times, 0);
  EXPECT_EQ(node.status(other.id()).clients, 1u);
}

TEST(MemoryNodeWait, AnswerThatEndsItsOwnClientIsSafe) {
  SimNode node;
  SimClient client(node);
  const CommitPage page = client.stage(1, 0, 512);
  const uint32_t immediate = client.send_and_arrive(512);
  int answers = 0;
  for (const uint32_t wanted : {make_immediate(7, 7), immediate, immediate}) {
    node.service().handle(client.id(), CommitRequest{wanted, kSecond, {page}}, [&](Reply) {
      ++answers;
      node.service().disconnected(client.id());
    });
  }
  node.run_for(2 * kSecond);
  EXPECT_GE(answers, 1);
  EXPECT_LE(answers, 2);
}

TEST(MemoryNodeWait, NodeThatEndsWithCommitsPendingIsQuiet) {
  SimNode node;
  SimClient client(node);
  const auto answer = client.commit(make_immediate(7, 7), {CommitPage{sim_key(1), 0, 1, 0}});
  node.stop();
  node.run_for(10 * kSecond);
  EXPECT_EQ(answer->times, 0);
}

TEST(MemoryNodeWait, RestartedNodeTakesNoPutWhileALeaseOfTheRunBeforeMayLast) {
  SimNode node;
  uint64_t epoch = 0;
  uint64_t incarnation = 0;
  Version version = 0;
  {
    SimClient before(node);
    EXPECT_EQ(version_epoch(before.put(1).version), before.hello.epoch);
    version = before.put(1).version;
    epoch = before.hello.epoch;
    incarnation = before.hello.incarnation;
    node.stop();
  }
  node.options().lease_ms = 20;  // what counts is the lease of the run before
  const uint64_t started = node.now();
  node.start();
  const uint64_t opens = started + 500 * kMillisecond / 64 * 65;
  SimClient client(node);
  EXPECT_GT(client.hello.epoch, epoch);
  EXPECT_NE(client.hello.incarnation, incarnation);
  EXPECT_EQ(client.hello.lease_ns, 20 * kMillisecond);
  const CommitPage page = client.stage(1, 0, 512);
  const uint32_t immediate = client.send_and_arrive(512);
  const auto hasty = client.commit(immediate, {page}, 100 * kMillisecond);
  const auto patient = client.commit(immediate, {page}, 10 * kSecond);
  node.run_for(10 * kSecond);
  expect_all(*hasty, 1, Code::kUnavailable);
  EXPECT_LT(hasty->at_ns, opens);
  expect_all(*patient, 1, Code::kOk);
  EXPECT_EQ(patient->at_ns, opens);
  EXPECT_GT(patient->results[0].version, version);
}

TEST(MemoryNodeWait, RemoveWaitsForPutsToOpenNoLongerThanItsPatience) {
  SimNode node;
  node.restart();
  const uint64_t started = node.now();
  const uint64_t opens = started + 500 * kMillisecond / 64 * 65;
  SimClient client(node);
  const uint64_t asked = node.now();
  struct Answer {
    std::optional<Reply> reply;
    uint64_t at_ns = 0;
  };
  const auto remove = [&](uint64_t patience_ns) {
    auto answer = std::make_shared<Answer>();
    node.service().handle(client.id(), RemoveRequest{{sim_key(1)}, {}, patience_ns},
                          [answer, &node](Reply reply) {
                            *answer = {std::move(reply), node.now()};
                          });
    return answer;
  };
  const auto hasty = remove(100 * kMillisecond);
  const auto patient = remove(10 * kSecond);
  node.run_for(20 * kSecond);
  ASSERT_TRUE(hasty->reply && patient->reply);
  const auto* refused = std::get_if<Refusal>(&*hasty->reply);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->code, Code::kUnavailable);
  EXPECT_EQ(hasty->at_ns, asked + 100 * kMillisecond);
  EXPECT_TRUE(std::holds_alternative<RemoveReply>(*patient->reply));
  EXPECT_EQ(patient->at_ns, opens);
}

// A run with a short lease that ends at once does not make the long lease before it any shorter.
TEST(MemoryNodeWait, LongLeaseIsRememberedOverAShortRun) {
  SimNode node;
  node.stop();
  node.options().lease_ms = 20;
  node.start();
  node.stop();
  const uint64_t started = node.now();
  node.start();
  SimClient client(node);
  const CommitPage page = client.stage(1, 0, 512);
  const auto answer = client.commit(client.send(512), {page}, 10 * kSecond);
  node.run_for(10 * kSecond);
  expect_all(*answer, 1, Code::kOk);
  EXPECT_EQ(answer->at_ns, started + 500 * kMillisecond / 64 * 65);
}

TEST(MemoryNodeWait, LeaseBecomesShorterOnceTheLongOneIsOver) {
  SimNode node;
  node.options().lease_ms = 20;
  node.restart();
  {
    SimClient client(node);
    ASSERT_EQ(client.put(1, 10 * kSecond).code, Code::kOk);
    node.stop();
  }
  const uint64_t started = node.now();
  node.start();
  SimClient client(node);
  const CommitPage page = client.stage(1, 0, 512);
  const auto answer = client.commit(client.send(512), {page}, 10 * kSecond);
  node.run_for(10 * kSecond);
  expect_all(*answer, 1, Code::kOk);
  EXPECT_EQ(answer->at_ns, started + 20 * kMillisecond / 64 * 65);
}

}  // namespace
}  // namespace farpage
