#include "report/latency.h"

#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

namespace farpage {
namespace {

// Latencies of 1, 2, ... µs.
Histogram microseconds(int count) {
  Histogram histogram;
  for (int i = 1; i <= count; ++i) histogram.add(1000.0 * i);
  return histogram;
}

TEST(LatencyJson, HasEveryPercentileThatItsSamplesSupport) {
  const boost::json::object latency = latency_json(microseconds(100'000));
  EXPECT_EQ(latency.at("count").to_number<int>(), 100'000);
  EXPECT_NEAR(latency.at("p50").to_number<double>(), 50'000, 500);
  EXPECT_NEAR(latency.at("p90").to_number<double>(), 90'000, 900);
  EXPECT_NEAR(latency.at("p99").to_number<double>(), 99'000, 990);
  EXPECT_NEAR(latency.at("p999").to_number<double>(), 99'900, 999);
  EXPECT_NEAR(latency.at("p9999").to_number<double>(), 99'990, 1000);
}

TEST(LatencyJson, IsNullWhereTooFewSamplesLieBeyond) {
  const boost::json::object latency = latency_json(microseconds(1'000));
  EXPECT_TRUE(latency.at("p99").is_double());
  EXPECT_TRUE(latency.at("p999").is_null());
  EXPECT_TRUE(latency.at("p9999").is_null());
}

TEST(LatencyText, HasADashWhereTooFewSamplesLieBeyond) {
  EXPECT_EQ(latency_text(microseconds(5)), "p50 -, p90 -, p99 -, p99.9 -, p99.99 - µs");
  Histogram histogram;
  for (int i = 0; i < 99'999; ++i) histogram.add(4200);
  const std::string text = latency_text(histogram);
  EXPECT_TRUE(text.starts_with("p50 4.2, p90 4.2, p99 4.2, p99.9 4.2, p99.99 - µs")) << text;
}

}  // namespace
}  // namespace farpage
