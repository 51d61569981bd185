#include <gtest/gtest.h>

#include <vector>

#include "sim/sim_cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kPage = 512;

class DeadlineOrder : public testing::Test {
 protected:
  static constexpr size_t kPages = 1024;
  static constexpr uint64_t kStepNs = 300 * kMicrosecond;  // a read takes three

  static SimClusterOptions options() {
    SimClusterOptions options;
    options.node.pool_bytes = 2 * kPages * (kPage + sizeof(PageHeader));
    options.node.reuse_ms = 100;
    options.node.lease_ms = 1'000;
    return options;
  }

  void SetUp() override {
    for (size_t i = 0; i < kPages; ++i) ASSERT_EQ(engine_.put(test_key(i), 1).code, Code::kOk);
    for (size_t i = 0; i < kPages; ++i) {
      ASSERT_EQ(engine_.fetch(test_key(i)).verdict, Verdict::kReady);
      requests_.push_back({test_key(i), 0, engine_.slice(i)});
    }
    verdicts_.resize(kPages);
    cluster_.set_network({.delay_min_ns = kStepNs, .delay_max_ns = kStepNs});
  }
  // So many pages that have a second.
  Fetch start_patient(size_t pages) {
    return engine_.lane().fetch(std::span(requests_).first(pages),
                                std::span(verdicts_).first(pages), engine_.deadline(kSecond));
  }
  PageVerdict fetch_urgent(uint64_t in_ns) {
    const PageRequest request = {test_key(0), 0, engine_.slice(kPages)};
    PageVerdict verdict;
    engine_.lane().fetch({&request, 1}, {&verdict, 1}, engine_.deadline(in_ns)).wait();
    return verdict;
  }

  SimCluster cluster_{1, options()};
  std::unique_ptr<Client> client_ = cluster_.connect(0).value();
  Engine engine_{*client_, kPage, kPages + 1};
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_;
};

TEST_F(DeadlineOrder, PageWithLittleTimeGoesBeforeThoseThatHaveNotBegun) {
  Fetch patient = start_patient(kPages);
  EXPECT_EQ(fetch_urgent(2 * kMillisecond).verdict, Verdict::kReady);
  patient.wait();
  for (const PageVerdict& verdict : verdicts_) EXPECT_EQ(verdict.verdict, Verdict::kReady);
}

// Those that were asked for first go first, where the deadline is the same.
TEST_F(DeadlineOrder, EqualDeadlinesKeepTheirOrder) {
  const uint64_t deadline_ns = engine_.deadline(kSecond);
  const std::span requests(requests_);
  const std::span verdicts(verdicts_);
  Fetch first = engine_.lane().fetch(requests.first(256), verdicts.first(256), deadline_ns);
  Fetch second = engine_.lane().fetch(requests.last(256), verdicts.last(256), deadline_ns);
  second.wait();
  EXPECT_TRUE(first.done());
  EXPECT_LT(verdicts_[0].took_ns, verdicts_[kPages - 1].took_ns);
}

// A fetch of many pages that is let go gives way at once.
TEST_F(DeadlineOrder, FetchThatIsLetGoStandsInNobodysWay) {
  { const Fetch dropped = start_patient(kPages); }
  EXPECT_EQ(fetch_urgent(kMillisecond).verdict, Verdict::kReady);
}

}  // namespace
}  // namespace farpage
