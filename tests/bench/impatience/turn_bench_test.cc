#include "bench/impatience/turn_bench.h"

#include <gtest/gtest.h>

#include "net/runtime/asio_runtime.h"
#include "sim/fault/shaped_fabric.h"
#include "tests/support/cluster.h"

namespace farpage {
namespace {

constexpr uint64_t kBatch = 8;
constexpr uint64_t kRounds = 3;

TurnBenchOptions few() {
  TurnBenchOptions options;
  options.page_bytes = 4 * kKiB;
  options.batch = kBatch;
  options.pool_bytes = 64 * kKiB;
  options.rounds = kRounds;
  options.seconds = 0.01;
  return options;
}

// Over a link that can be held.
class TurnBenchTest : public testing::Test {
 protected:
  Result<TurnBenchResult> run(const std::function<void(bool)>& hold) {
    return run_turn_bench(
        *client_, few(), hold, [this] { return interrupted_; }, [](uint64_t, uint64_t) {});
  }

  static NodeOptions leased() {
    NodeOptions options = Cluster::small_options();
    options.lease_ms = 20'000;  // however long this machine lets a thread wait
    return options;
  }
  Cluster cluster_{Path::kTcp, leased()};
  AsioRuntime runtime_;
  std::unique_ptr<Fabric> fabric_ = tcp::make_tcp_fabric({}).value();
  fault::ShapedFabric shaped_{*fabric_, runtime_.clock()};
  std::unique_ptr<ControlDialer> dialer_ =
      make_dialer(runtime_, cluster_.address(), {}, 10'000).value();
  std::unique_ptr<Client> client_ =
      Client::connect({.staging_bytes = kMiB}, runtime_, shaped_, *dialer_).value();
  bool interrupted_ = false;
};

TEST_F(TurnBenchTest, EveryRoundEndsAPathAndItsPagesComeOverTheNext) {
  uint64_t held = 0;
  uint64_t let_go = 0;
  const auto result = run([&](bool holds) {
    ++(holds ? held : let_go);
    shaped_.shape({.latency_ns = holds ? 3'600 * kSecond : 0, .bytes_per_s = 0});
  });
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(held, kRounds);
  EXPECT_EQ(let_go, kRounds);
  EXPECT_GE(result->channels_ended, kRounds);
  EXPECT_GE(result->ready, 2 * kRounds * kBatch);  // of a steady fetch and of one that was held
  EXPECT_EQ(result->ready % kBatch, 0u);
  EXPECT_GT(result->steady_ns.count(), 0u);
  EXPECT_GT(result->ending_ns.count(), 0u);
  EXPECT_GE(static_cast<double>(result->ending_most_ns) * 1.02, result->ending_ns.quantile(1));
}

TEST_F(TurnBenchTest, InterruptEndsIt) {
  interrupted_ = true;
  const auto result = run([](bool) {});
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->interrupted);
  EXPECT_EQ(result->channels_ended, 0u);
}

TEST(TurnBenchOptions, RefusesWhatSaysNothing) {
  EXPECT_TRUE(few().validate().has_value());
  const auto refuses = [](auto change) {
    TurnBenchOptions options = few();
    change(options);
    return !options.validate().has_value();
  };
  EXPECT_TRUE(refuses([](auto& options) { options.batch = 0; }));
  EXPECT_TRUE(refuses([](auto& options) { options.rounds = 0; }));
  EXPECT_TRUE(refuses([](auto& options) { options.page_bytes = 1; }));
  EXPECT_TRUE(refuses([](auto& options) { options.pool_bytes = 1; }));
  EXPECT_TRUE(refuses([](auto& options) { options.seconds = 0; }));
}

}  // namespace
}  // namespace farpage
