#include "bench/impatience/urgent_bench.h"

#include <gtest/gtest.h>

#include <boost/json/object.hpp>

#include "tests/support/cluster.h"

namespace farpage {
namespace {

constexpr uint64_t kPatientUs = 20'000'000;

UrgentBenchOptions few() {
  UrgentBenchOptions options;
  options.page_bytes = 4 * kKiB;
  options.beside = 200;
  options.deadline_us = options.others_deadline_us = kPatientUs;
  options.rounds = 5;
  return options;
}

class UrgentBenchTest : public testing::Test {
 protected:
  Result<UrgentBenchResult> run(const UrgentBenchOptions& options) {
    return run_urgent_bench(
        *client_, options, [this] { return interrupted_; }, [](uint64_t, uint64_t) {});
  }

  // However long this machine lets a thread wait, no read is older than `read_window`.
  static NodeOptions patient() {
    NodeOptions options = Cluster::small_options();
    options.reuse_ms = 10'000;
    options.lease_ms = 20'000;
    return options;
  }
  Cluster cluster_{Path::kTcp, patient()};
  std::unique_ptr<Client> client_ = cluster_.connect();
  bool interrupted_ = false;
};

TEST_F(UrgentBenchTest, EveryPageHasItsVerdictAndIsCompared) {
  const auto result = run(few());
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->rounds, 5u);
  EXPECT_EQ(result->ready, 5u);
  EXPECT_EQ(result->others_ready, 5u * 200);
  EXPECT_EQ(result->alone_ns.count(), 5u);
  EXPECT_EQ(result->behind_ns.count(), 5u);
  EXPECT_EQ(result->others_ns.count(), 5u);
  EXPECT_EQ(result->checked_pages, 2u * 5);
  EXPECT_EQ(result->wrong_bytes, 0u);
  EXPECT_EQ(result->channels_ended, 0u);
}

// They take longer than a microsecond, and cost no channel.
TEST_F(UrgentBenchTest, PagesWithoutTimeAreNotReady) {
  UrgentBenchOptions options = few();
  options.deadline_us = 1;
  const auto result = run(options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->ready, 0u);
  EXPECT_EQ(result->others_ready, 5u * 200);
  EXPECT_EQ(result->channels_ended, 0u);
}

TEST_F(UrgentBenchTest, InterruptEndsIt) {
  interrupted_ = true;
  const auto result = run(few());
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->interrupted);
  EXPECT_EQ(result->rounds, 0u);
}

TEST(UrgentBenchOptions, RefusesWhatSaysNothing) {
  EXPECT_TRUE(few().validate().has_value());
  const auto refuses = [](auto change) {
    UrgentBenchOptions options = few();
    change(options);
    return !options.validate().has_value();
  };
  EXPECT_TRUE(refuses([](auto& options) { options.beside = 0; }));
  EXPECT_TRUE(refuses([](auto& options) { options.rounds = 0; }));
  EXPECT_TRUE(refuses([](auto& options) { options.page_bytes = 1; }));
  EXPECT_TRUE(refuses([](auto& options) { options.deadline_us = 0; }));
  EXPECT_TRUE(refuses([](auto& options) { options.others_deadline_us = 1; }));
}

}  // namespace
}  // namespace farpage
