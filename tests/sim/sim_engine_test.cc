#include "sim/sim_engine.h"

#include <gtest/gtest.h>

#include <map>

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kSoonNs = 10 * kMillisecond;

// The outcome of each put, by its number.
class Results : public EngineWitness {
 public:
  void put_sent(const PageKey&, uint64_t number) override { ended.emplace(number, std::nullopt); }
  void put_ended(const Asked&, uint64_t number, const PutResult& result) override {
    ended[number] = result;
  }

  std::map<uint64_t, std::optional<PutResult>> ended;
};

class SimEngineTest : public testing::Test {
 protected:
  explicit SimEngineTest(const SimClusterOptions& options = {})
      : cluster_(1, options),
        engine_(cluster_.world(), cluster_.connect().value(), truth_, findings_, kPageBytes,
                &results_) {}
  ~SimEngineTest() override {
    for (const Finding& finding : findings_.all()) ADD_FAILURE() << finding;
  }

  void put(const std::vector<uint64_t>& keys) {
    engine_.start_put(keys, kSoonNs);
    cluster_.world().wait_until(cluster_.now_ns() + 2 * kSoonNs, [this] {
      engine_.observe();
      return engine_.idle();
    });
  }

  SimCluster cluster_;
  Truth truth_;
  Findings findings_;
  Results results_;
  SimEngine engine_;
};

TEST_F(SimEngineTest, EachPageOfAPutHasItsOwnNumberAndVersion) {
  put({0, 1, 0});
  ASSERT_EQ(results_.ended.size(), 3u);
  for (const auto& [number, result] : results_.ended) {
    ASSERT_TRUE(result) << number;
    EXPECT_EQ(result->code, Code::kOk) << number;
  }
  EXPECT_LT(results_.ended[1]->version, results_.ended[3]->version) << "both of one key";
  EXPECT_EQ(engine_.counts().puts_acknowledged, 3u);
  EXPECT_EQ(engine_.fetch_now(0, kSoonNs).version, results_.ended[3]->version);
  EXPECT_EQ(engine_.fetch_now(1, kSoonNs).version, results_.ended[2]->version);
}

// Its fetches end as it goes, and the deadline comes afterwards. With AddressSanitizer, whoever
// looks at them then is found.
TEST_F(SimEngineTest, MayGoBeforeTheDeadlineOfAFetch) {
  auto other = std::make_unique<SimEngine>(cluster_.world(), cluster_.connect().value(), truth_,
                                           findings_, kPageBytes, &results_);
  other->start_fetch({0, 1}, kSoonNs, false);
  other.reset();
  const uint64_t until_ns = cluster_.now_ns() + 2 * kSoonNs;
  cluster_.world().wait_until(until_ns, [] { return false; });
  EXPECT_GE(cluster_.now_ns(), until_ns);
}

SimClusterOptions two_slots_for_ever() {
  SimClusterOptions options;
  options.node.pool_bytes = 2 * (kPageBytes + sizeof(PageHeader));
  options.node.evict = false;
  return options;
}

class SimEngineAtAFullNode : public SimEngineTest {
 protected:
  SimEngineAtAFullNode() : SimEngineTest(two_slots_for_ever()) {}
};

TEST_F(SimEngineAtAFullNode, PagesOfOnePutAreJudgedApart) {
  put({0, 1, 2, 3});
  ASSERT_EQ(results_.ended.size(), 4u);
  for (const uint64_t number : {1, 2, 3, 4}) {
    ASSERT_TRUE(results_.ended[number]) << number;
    EXPECT_EQ(results_.ended[number]->code == Code::kOk, number <= 2) << number;
  }
  EXPECT_EQ(engine_.counts().puts, 4u);
  EXPECT_EQ(engine_.counts().puts_acknowledged, 2u);
}

}  // namespace
}  // namespace farpage
