#include "chaos/processes/engine.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/cluster.h"

namespace farpage::processes {
namespace {

constexpr uint64_t kLongNs = 60 * kSecond;

class ProcessesEngine : public testing::Test {
 protected:
  std::unique_ptr<Engine> connect(Checker& checker) {
    return Engine::make("client", cluster_.connect(), checker, keys_, cluster_.options().page_bytes,
                        1)
        .value();
  }
  static size_t count(const Checker& checker, FindingKind kind) {
    const std::vector<Finding> findings = checker.findings();
    return static_cast<size_t>(std::ranges::count(findings, kind, &Finding::kind));
  }

  Cluster cluster_{Path::kTcp};
  Keys keys_{32, 8};
  std::vector<size_t> some_ = {0, 1, 2, 3};
};

TEST_F(ProcessesEngine, FindsNothingWhereNothingIsWrong) {
  Checker checker;
  const auto first = connect(checker);
  const auto second = connect(checker);
  first->start();
  second->start();
  const auto has_done_all = [](const Engine& engine) {
    const Engine::Counts& counts = engine.counts();
    return counts.ready > 50 && counts.puts_acknowledged > 50 && counts.removes_acknowledged > 5;
  };
  while (!has_done_all(*first) || !has_done_all(*second)) std::this_thread::yield();
  for (Engine* engine : {first.get(), second.get()}) {
    EXPECT_TRUE(engine->stop(boottime_clock().now_ns() + kLongNs));
    engine->finish(boottime_clock().now_ns() + kLongNs);
  }
  for (const Finding& finding : checker.findings()) ADD_FAILURE() << finding;
}

TEST_F(ProcessesEngine, FindsPagesThatNobodyItKnowsOfHasPut) {
  Checker mine;
  Checker others;
  for (const PutResult& put : connect(others)->put(some_, kLongNs)) EXPECT_EQ(put.code, Code::kOk);
  for (const PageVerdict& page : connect(mine)->fetch(some_, kLongNs)) {
    EXPECT_EQ(page.verdict, Verdict::kReady);
  }
  EXPECT_EQ(count(mine, FindingKind::kWrongBytes), some_.size());
  EXPECT_EQ(mine.findings().size(), some_.size());
}

TEST_F(ProcessesEngine, FindsPagesThatAreOlderThanWhatWasAcknowledged) {
  Checker checker;
  const auto engine = connect(checker);
  engine->put(some_, kLongNs);
  checker.with_truth([&](Truth& truth) {
    const PageKey& key = keys_.all[2];
    truth.acknowledge_put(key, truth.send_put(key), truth.bound(key).at_least + 1);
  });
  engine->fetch(some_, kLongNs);
  EXPECT_EQ(count(checker, FindingKind::kWentBack), 1u);
  EXPECT_EQ(checker.findings().size(), 1u);
}

TEST_F(ProcessesEngine, FindsPagesThatAreThereAfterTheirRemoval) {
  Checker checker;
  const auto engine = connect(checker);
  engine->put(some_, kLongNs);
  checker.with_truth([&](Truth& truth) {
    truth.acknowledge_remove(keys_.all[1], truth.send_remove(keys_.all[1]));
  });
  engine->fetch(some_, kLongNs);
  EXPECT_EQ(count(checker, FindingKind::kWentBack), 1u);
}

// There are fewer frames than that.
TEST_F(ProcessesEngine, TellsOfEachKeyThatWasNotAskedForToo) {
  Checker checker;
  const auto engine = connect(checker);
  engine->put({&some_[0], 1}, kLongNs);
  const std::vector<size_t> often(300, some_[0]);
  const std::vector<PageVerdict> pages = engine->fetch(often, kLongNs);
  ASSERT_EQ(pages.size(), often.size());
  EXPECT_EQ(pages.front().verdict, Verdict::kReady);
  EXPECT_EQ(pages.back().verdict, Verdict::kPending);
  const std::vector<PutResult> puts = engine->put(often, kLongNs);
  ASSERT_EQ(puts.size(), often.size());
  EXPECT_EQ(puts.front().code, Code::kOk);
  EXPECT_EQ(puts.back().code, Code::kTimeout);
  EXPECT_TRUE(checker.found_nothing());
}

TEST_F(ProcessesEngine, SaysHowLateItSawAnEnd) {
  Checker checker;
  const auto engine = connect(checker);
  engine->fetch(some_, kLongNs);
  EXPECT_TRUE(engine->lateness().empty());
  engine->fetch(some_, 0);
  ASSERT_EQ(engine->lateness().size(), 1u);
  EXPECT_GT(engine->lateness()[0].ns, 0u);
}

}  // namespace
}  // namespace farpage::processes
