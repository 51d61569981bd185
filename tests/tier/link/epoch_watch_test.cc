#include "tier/link/epoch_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace farpage {
namespace {

// A link whose questions wait until the test answers them.
struct Link final : ControlLink {
  void call(Request request, ReplyCallback done) override {
    questions.emplace_back(std::get<EpochRequest>(request).known, std::move(done));
  }
  void close() override {}
  const Peer& peer() const override { return nowhere; }
  // The one that waits.
  void answer(Result<Reply> reply) {
    const auto waiting = std::exchange(questions, {});
    ASSERT_EQ(waiting.size(), 1u);
    waiting[0].second(std::move(reply));
  }

  std::vector<std::pair<EpochTag, ReplyCallback>> questions;
  const Peer nowhere = {};
};

struct EpochWatchTest : testing::Test {
  std::shared_ptr<Link> link = std::make_shared<Link>();
  std::vector<EpochTag> entered;
  std::shared_ptr<EpochWatch> watch = std::make_shared<EpochWatch>(
      [this](const EpochTag& epoch, ControlLink&) { entered.push_back(epoch); });
};

constexpr EpochTag kNow = {2, 20};
constexpr EpochTag kNext = {3, 30};

TEST_F(EpochWatchTest, OneQuestionWaitsAtEachLink) {
  const auto other = std::make_shared<Link>();
  for (int renewal = 0; renewal < 3; ++renewal) {
    watch->watch(kNow, link);
    watch->watch(kNow, other);
  }
  ASSERT_EQ(link->questions.size(), 1u);
  EXPECT_EQ(link->questions[0].first, kNow);
  EXPECT_EQ(other->questions.size(), 1u);
}

TEST_F(EpochWatchTest, NodeThatEntersAnEpochIsAskedForTheOneAfterThatWithItsNextRenewal) {
  watch->watch(kNow, link);
  link->answer(Reply(EpochReply{kNext}));
  EXPECT_EQ(entered, std::vector<EpochTag>{kNext});
  EXPECT_TRUE(link->questions.empty()) << "whatever it answers, it is not asked on and on";
  watch->watch(kNext, link);
  ASSERT_EQ(link->questions.size(), 1u);
  EXPECT_EQ(link->questions[0].first, kNext);
}

// It knows no questions that wait, and sends all of an epoch each time.
TEST_F(EpochWatchTest, NodeThatAnswersWithWhatIsKnownIsAskedNoMoreAtThisLink) {
  for (const EpochTag& told : {kNow, EpochTag{}}) {
    const auto old = std::make_shared<Link>();
    watch->watch(kNow, old);
    old->answer(Reply(EpochReply{told}));
    for (int renewal = 0; renewal < 3; ++renewal) watch->watch(kNow, old);
    EXPECT_TRUE(old->questions.empty());
    watch->watch(kNow, link);
    EXPECT_EQ(link->questions.size(), 1u) << "another one may";
  }
  EXPECT_TRUE(entered.empty());
}

TEST_F(EpochWatchTest, RefusalsAndLostLinksEndTheQuestion) {
  watch->watch(kNow, link);
  link->answer(Reply(Refusal{Code::kUnavailable, "left out"}));
  watch->watch(kNow, link);
  EXPECT_EQ(link->questions.size(), 1u);
  link->answer(fail(Code::kUnavailable, "lost"));
  watch->watch(kNow, link);
  EXPECT_EQ(link->questions.size(), 1u);
  EXPECT_TRUE(entered.empty());
}

// The link's callbacks may run after it has gone, or never.
TEST_F(EpochWatchTest, LinkThatGoesWithItsQuestionIsForgotten) {
  for (int i = 0; i < 1'000; ++i) {
    link = std::make_shared<Link>();
    watch->watch(kNow, link);
    ASSERT_EQ(link->questions.size(), 1u) << "perhaps where one before was";
  }
  auto questions = std::exchange(link->questions, {});
  link.reset();
  questions[0].second(Reply(EpochReply{kNext}));
  EXPECT_TRUE(entered.empty());
}

TEST_F(EpochWatchTest, AnswersAfterItsEndAreNoOnes) {
  watch->watch(kNow, link);
  watch.reset();
  link->answer(Reply(EpochReply{kNext}));
  EXPECT_TRUE(entered.empty());
}

}  // namespace
}  // namespace farpage
