#include "node/fleet/epoch_watchers.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/node/fleet/one_register.h"

namespace farpage {
namespace {

constexpr uint64_t kView = 640 * kMillisecond;
constexpr Member kSelf = {7, 70};
constexpr Member kOther = {8, 80, false, 2};

// A node that has joined as epoch 2, and clients that wait there.
class EpochWatchersTest : public testing::Test {
 protected:
  EpochWatchersTest() {
    fleet_.epochs = &epochs_;
    fleet_.view_ns = kView;
    node_.emplace(machine_.runtime(), fleet_, kSelf, 512,
                  NodeEpoch::Hooks{[this] {
                                     node_->killed();
                                     if (watchers_) watchers_->begin_epoch();
                                   },
                                   [] {}});
    watchers_.emplace(machine_.runtime(), *node_);
    node_->start();
    run_for(kView);
    EXPECT_EQ(node_->tag().number, 2u);
  }

  void run_for(uint64_t duration_ns) { world_.run_until(world_.now_ns() + duration_ns); }
  void ask(ClientId client, const EpochTag& known) {
    watchers_->add(client, known, [this, client](const Reply& reply) {
      const auto* refusal = std::get_if<Refusal>(&reply);
      if (refusal != nullptr) {
        refused_[client] = refusal->code;
      } else {
        answers_[client].push_back(std::get<EpochReply>(reply));
      }
    });
  }
  void begin_epoch() {
    ++epochs_.current.epoch.number;
    epochs_.current.confirmed.clear();
  }
  const EpochReply& answer_of(ClientId client) { return answers_.at(client).front(); }

  sim::World world_{1};
  sim::SimFabric machine_{world_, {}};
  OneRegister epochs_{world_, {1, 1, 1, 512, {kOther}}};
  Fleet fleet_;
  std::optional<NodeEpoch> node_;
  std::optional<EpochWatchers> watchers_;
  std::map<ClientId, std::vector<EpochReply>> answers_;
  std::map<ClientId, Code> refused_;
};

TEST_F(EpochWatchersTest, ClientHearsOfTheNextEpochAndNotBefore) {
  ask(1, node_->tag());
  run_for(10 * kView);
  EXPECT_TRUE(answers_.empty());
  begin_epoch();
  while (node_->tag().number == 2) run_for(kMillisecond);
  run_for(2 * kMillisecond);
  ASSERT_EQ(answers_[1].size(), 1u);
  EXPECT_EQ(answer_of(1).view, node_->tag());
  EXPECT_EQ(answer_of(1).view.number, 3u);
  EXPECT_LE(answer_of(1).view_age_ns, 10 * kMillisecond);
  EXPECT_TRUE(answer_of(1).members.empty()) << "who hears of it asks one node for all of it";
  EXPECT_EQ(watchers_->waiting(), 0u);
}

TEST_F(EpochWatchersTest, ClientOfAnEpochBeforeHearsAtOnce) {
  ask(1, {1, 99});
  ASSERT_EQ(answers_[1].size(), 1u);
  EXPECT_EQ(answer_of(1).view, node_->tag());
}

TEST_F(EpochWatchersTest, NewestQuestionOfAClientIsTheOneThatWaits) {
  ask(1, node_->tag());
  ask(1, node_->tag());
  ASSERT_EQ(answers_[1].size(), 1u) << "the first one has its answer";
  EXPECT_EQ(answer_of(1).view, node_->tag());
  EXPECT_EQ(watchers_->waiting(), 1u);
  begin_epoch();
  run_for(kView);
  EXPECT_EQ(answers_[1].size(), 2u);
}

TEST_F(EpochWatchersTest, ClientThatHasGoneIsNotAnswered) {
  ask(1, node_->tag());
  ask(2, node_->tag());
  watchers_->disconnected(1);
  begin_epoch();
  run_for(kView);
  EXPECT_FALSE(answers_.contains(1));
  EXPECT_EQ(answers_[2].size(), 1u);
}

// Renewals come between them.
TEST_F(EpochWatchersTest, ManyClientsAreToldInTurns) {
  std::map<uint64_t, int> told;  // by time
  for (ClientId client = 0; client < 1'000; ++client) {
    watchers_->add(client, node_->tag(), [&](const Reply&) { ++told[world_.now_ns()]; });
  }
  begin_epoch();
  run_for(kView);
  int all = 0;
  for (const auto& [at_ns, count] : told) {
    EXPECT_LE(count, 16);
    all += count;
  }
  EXPECT_EQ(all, 1'000);
  EXPECT_LE(told.rbegin()->first - told.begin()->first, 1'000 / 16 * kMillisecond);
}

// The turns of the epoch before go on, with all who wait now.
TEST_F(EpochWatchersTest, EpochThatBeginsWhileOthersAreToldIsToldToAll) {
  constexpr ClientId kClients = 1'000;
  for (ClientId client = 0; client < kClients; ++client) ask(client, node_->tag());
  begin_epoch();
  while (answers_.empty()) run_for(100 * kMicrosecond);
  const auto first = answers_;
  for (const auto& [client, answers] : first) ask(client, node_->tag());
  begin_epoch();
  while (node_->tag().number == 3) run_for(100 * kMicrosecond);
  const auto between = answers_;
  ASSERT_LT(between.size(), kClients / 2) << "the others are still to be told";
  run_for(kView);
  EXPECT_EQ(watchers_->waiting(), 0u);
  for (ClientId client = 0; client < kClients; ++client) {
    const auto& answers = answers_.at(client);
    const bool knew_between = !first.contains(client) && between.contains(client) &&
                              between.at(client)[0].view.number == 3;
    EXPECT_EQ(answers.size(), first.contains(client) ? 2u : 1u);
    EXPECT_EQ(answers.back().view.number, knew_between ? 3u : 4u) << client;
  }
}

// What it would tell is of no use to a client.
TEST_F(EpochWatchersTest, NodeWhoseViewHasEndedTellsOnceItHasOneAgain) {
  ask(1, node_->tag());
  begin_epoch();
  while (node_->tag().number == 2) run_for(100 * kMicrosecond);
  epochs_.answers = false;
  const uint64_t age_ns = node_->view_age_ns(world_.now_ns()).value();
  machine_.pause();  // before it has told anybody
  run_for(kView - age_ns);
  machine_.resume();
  run_for(2 * kView);
  EXPECT_TRUE(answers_.empty());
  ask(2, {1, 99});
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(watchers_->waiting(), 2u);
  epochs_.answers = true;
  run_for(kView);
  EXPECT_EQ(answers_[1].size(), 1u);
  EXPECT_EQ(answers_[2].size(), 1u);
  EXPECT_EQ(answer_of(1).view, node_->tag());
}

TEST_F(EpochWatchersTest, QuestionOfATimeWithoutAViewIsAnsweredOnceThereIsOne) {
  epochs_.answers = false;
  run_for(2 * kView);
  ask(1, {1, 99});
  EXPECT_TRUE(answers_.empty());
  epochs_.answers = true;
  run_for(kView);
  EXPECT_EQ(answers_[1].size(), 1u);
}

TEST_F(EpochWatchersTest, NodeThatIsLeftOutRefusesWhatWaits) {
  ask(1, node_->tag());
  watchers_->withdraw();
  EXPECT_EQ(refused_, (std::map<ClientId, Code>{{1, Code::kUnavailable}}));
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(watchers_->waiting(), 0u);
}

// As ServedClients does it where an answer cannot be sent.
TEST_F(EpochWatchersTest, ClientMayGoWithItsAnswer) {
  for (ClientId client = 0; client < 100; ++client) {
    watchers_->add(client, node_->tag(), [this, client](const Reply&) {
      for (ClientId gone = client; gone < client + 10; ++gone) watchers_->disconnected(gone);
      answers_[client].emplace_back();
    });
  }
  begin_epoch();
  run_for(kView);
  EXPECT_EQ(watchers_->waiting(), 0u);
  EXPECT_GE(answers_.size(), 10u);
}

}  // namespace
}  // namespace farpage
