#include <gtest/gtest.h>

#include "tests/tier/fleet.h"

namespace farpage {
namespace {

class CountingRuntime final : public Runtime {
 public:
  explicit CountingRuntime(Runtime& inner) : inner_(inner) {}
  const Clock& clock() const override { return inner_.clock(); }
  void after(uint64_t delay_ns, std::function<void()> callback) override {
    ++posted;
    inner_.after(delay_ns, std::move(callback));
  }
  void offload(JobClass job, std::function<void()> work) override {
    inner_.offload(job, std::move(work));
  }
  bool wait_until(uint64_t deadline_ns, const std::function<bool()>& ready) override {
    return inner_.wait_until(deadline_ns, ready);
  }
  void wake() override { inner_.notify(); }

  uint64_t posted = 0;

 private:
  Runtime& inner_;
};

double reports_of(const Client& client) {
  RecordedMetrics metrics;
  client.describe(metrics);
  double reports = 0;
  for (const auto& [series, value] : metrics.values) {
    if (series.starts_with("farpage_client_reports_total")) reports += value;
  }
  return reports;
}

TEST(ReportFlood, StalePagesPostNoMoreThanIsReported) {
  SimCluster cluster(1, three_nodes());
  CountingRuntime runtime(cluster.client_fabric(0).runtime());
  const Fleet fleet = cluster.fleet_for_client(0);
  ClientOptions options;
  options.staging_bytes = 64 * kKiB;
  auto client = Client::connect(options, runtime, cluster.client_fabric(0), fleet).value();
  cluster.world().run_until(cluster.now_ns() + 10 * kView);
  {
    Engine engine(*client, kPageBytes, 64);
    cluster.world().run_until(cluster.now_ns() + kView);
    constexpr uint64_t kPages = 50;
    for (uint64_t i = 0; i < kPages; ++i) ASSERT_EQ(engine.put(test_key(i), 1).code, Code::kOk);
    const auto fetch_stale = [&] {
      std::vector<PageRequest> requests;
      std::vector<PageVerdict> verdicts(kPages);
      for (uint64_t i = 0; i < kPages; ++i) {
        requests.push_back({test_key(i), UINT64_MAX, engine.slice(i)});
      }
      engine.lane().fetch(requests, verdicts, engine.deadline()).wait();
      for (const auto& verdict : verdicts) ASSERT_EQ(verdict.reason, Reason::kStale);
    };
    const uint64_t began = cluster.now_ns();
    const uint64_t posted = runtime.posted;
    for (int round = 0; round < 200; ++round) fetch_stale();
    cluster.world().run_until(cluster.now_ns() + kView);
    ASSERT_LT(cluster.now_ns() - began, kSecond);
    // Each page at both of its nodes, and renewals have some callbacks too.
    EXPECT_EQ(reports_of(*client), 2 * kPages);
    EXPECT_LE(runtime.posted - posted, 1000u);
    cluster.world().run_until(began + 2 * kSecond);
    fetch_stale();
    cluster.world().run_until(cluster.now_ns() + kView);
    EXPECT_EQ(reports_of(*client), 4 * kPages) << "a second later each is told again";
  }
  client.reset();
}

}  // namespace
}  // namespace farpage
