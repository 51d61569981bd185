#include <gtest/gtest.h>

#include "tests/support/cluster.h"
#include "tests/support/engine.h"
#include "tests/support/tcp_proxy.h"

namespace farpage {
namespace {

// A client that reaches its node through a network that the test breaks.
class LostConnectionTest : public testing::TestWithParam<Path> {
 protected:
  static constexpr size_t kPages = 200;

  static NodeOptions options() {
    NodeOptions options = Cluster::small_options();
    options.page_bytes = 64 * kKiB;
    options.pool_bytes = 32 * kMiB;
    options.max_staging_bytes = 64 * kMiB;
    options.reuse_ms = 2'000;
    options.lease_ms = 1'000;
    return options;
  }

  void SetUp() override {
    for (size_t page = 0; page < kPages; ++page) {
      ASSERT_EQ(engine_.put(test_key(page), 1).code, Code::kOk);
      requests_.push_back({test_key(page), 0, engine_.slice(page)});
    }
    verdicts_.resize(kPages);
  }

  size_t fetch_all(uint64_t deadline_ns) {
    std::fill(verdicts_.begin(), verdicts_.end(), PageVerdict());
    engine_.lane().fetch(requests_, verdicts_, deadline_ns).wait();
    size_t ready = 0;
    for (size_t page = 0; page < kPages; ++page) {
      if (verdicts_[page].verdict != Verdict::kReady) continue;
      ++ready;
      EXPECT_EQ(engine_.put_number_of(test_key(page), page), 1);
    }
    return ready;
  }
  bool all_ready_again() {
    const uint64_t end = engine_.deadline(20 * kSecond);
    while (client_->clock().now_ns() < end) {
      if (fetch_all(engine_.deadline(kSecond)) == kPages) return true;
    }
    return false;
  }

  Cluster cluster_{GetParam(), options()};
  TcpProxy proxy_{cluster_.address()};
  std::unique_ptr<Client> client_ = cluster_.connect({}, proxy_.address());
  Engine engine_{*client_, 64 * kKiB, kPages};
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_;
};

TEST_P(LostConnectionTest, TheFetchGoesOnInsideItsDeadline) {
  ASSERT_EQ(fetch_all(engine_.deadline(20 * kSecond)), kPages);
  const uint64_t connections = proxy_.connections();
  for (const uint64_t bytes : {1ull, 100'000ull, 3'000'000ull, 9'000'000ull}) {
    proxy_.cut_after(bytes);
    EXPECT_EQ(fetch_all(engine_.deadline(5 * kSecond)), kPages) << bytes;
  }
  EXPECT_GE(proxy_.connections(), connections + 4);
  EXPECT_EQ(engine_.lane().stats().late_verdicts, 0u);
}

TEST_P(LostConnectionTest, ASilentNodeIsKnownByTheDeadline) {
  ASSERT_EQ(fetch_all(engine_.deadline(20 * kSecond)), kPages);
  proxy_.hold(true);
  const uint64_t deadline = engine_.deadline(200 * kMillisecond);
  Fetch fetch = engine_.lane().fetch(requests_, verdicts_, deadline);
  fetch.wait();
  EXPECT_LT(engine_.lane().stats().latest_ns, 500 * kMillisecond);  // the machine's, not TCP's
  EXPECT_TRUE(fetch.wait_released(engine_.deadline(5 * kSecond)));
  for (const PageVerdict& verdict : verdicts_) {
    EXPECT_EQ(verdict.verdict, Verdict::kRecompute);
    EXPECT_EQ(verdict.place, Place::kReleased);
  }
  proxy_.hold(false);
  EXPECT_TRUE(all_ready_again());
}

// The lease ends meanwhile, and the control connection with all of its state is made anew.
TEST_P(LostConnectionTest, ASilenceLongerThanTheLeaseEnds) {
  proxy_.hold(true);
  const uint64_t end = engine_.deadline(20 * kSecond);
  while (client_->reachable() && client_->clock().now_ns() < end) {
    fetch_all(engine_.deadline(50 * kMillisecond));
  }
  EXPECT_FALSE(client_->reachable());
  EXPECT_EQ(fetch_all(engine_.deadline(5 * kSecond)), 0u);
  for (const PageVerdict& verdict : verdicts_) EXPECT_EQ(verdict.reason, Reason::kUnreachable);
  proxy_.hold(false);
  EXPECT_TRUE(all_ready_again());
}

TEST_P(LostConnectionTest, EveryConnectionCutAtOnceIsMadeAgain) {
  ASSERT_EQ(fetch_all(engine_.deadline(20 * kSecond)), kPages);
  proxy_.cut();
  EXPECT_TRUE(all_ready_again());
  const uint64_t end = engine_.deadline(20 * kSecond);
  Code code = Code::kTimeout;
  while (code != Code::kOk && client_->clock().now_ns() < end) {
    code = engine_.put(test_key(1), 2).code;
  }
  EXPECT_EQ(code, Code::kOk);
}

INSTANTIATE_TEST_SUITE_P(Paths, LostConnectionTest, testing::Values(Path::kTcp, Path::kTls),
                         path_name);

}  // namespace
}  // namespace farpage
