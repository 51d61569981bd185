#include "replay/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "replay/report_rows.h"
#include "report/chart.h"
#include "report/json.h"

namespace farpage {
namespace {

namespace json = boost::json;
using testing::HasSubstr;
using testing::Not;

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    trace_.name = "a <b> & \"c\".jsonl";
    result_.requests = 20;
    result_.pages_demanded = 100;
    result_.local_hits = 10;
    result_.fetched = 90;
    result_.ready = 60;
    result_.recompute[static_cast<size_t>(Reason::kMiss)] = 28;
    result_.recompute[static_cast<size_t>(Reason::kUnreachable)] = 2;
    result_.puts[static_cast<size_t>(Code::kOk)] = 29;
    result_.puts[static_cast<size_t>(Code::kTimeout)] = 1;
    for (int i = 1; i <= 100; ++i) result_.fetch_ns.add(1000.0 * i);
    result_.fetch_seconds = 0.5;
    result_.windows = {{10, 50, 4, 20, 1'000, 2'000}, {20, 50, 6, 40, 100'000, 2e6}};
  }

  Trace trace_;
  ReplayOptions options_;
  ReplayResult result_;
  Capabilities capabilities_ = {.backend = "shm", .path = "shared memory"};
  std::vector<PathUse> paths_ = {{.path = "rxe0 -> 10.9.0.2",
                                  .link_bits_per_s = 2'500'000'000,
                                  .connections = 1,
                                  .connected = 2,
                                  .failed = 3,
                                  .broken = 4,
                                  .reads = 5,
                                  .read_bytes = 6 * kMiB,
                                  .writes = 7,
                                  .write_bytes = 8 * kMiB},
                                 {.path = "any device -> 10.9.0.3"}};
  ReplayContext context_ = {"1.2.3", "found in traces/", true, 1};
  ReplayReport report_ = {trace_, options_, result_, capabilities_, paths_, context_};
};

TEST_F(ReportTest, PathsAreToldOneByOne) {
  const json::value parsed = json::parse(format_json(replay_json(report_)));
  const json::array& paths = parsed.at("paths").as_array();
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(json::serialize(paths[0]),
            R"({"path":"rxe0 -> 10.9.0.2","link_bits_per_s":2500000000,"connections":1,)"
            R"("connected":2,"failed":3,"broken":4,"reads":5,"read_bytes":6291456,"writes":7,)"
            R"("write_bytes":8388608})");
  EXPECT_TRUE(paths[1].at("link_bits_per_s").is_null());
  EXPECT_THAT(replay_table(report_),
              HasSubstr("  rxe0 -> 10.9.0.2       2.5 Gbit/s; 6 MiB read in 5, 8 MiB written in 7; "
                        "2 connections made, 3 failed, 4 broken\n"));
}

TEST_F(ReportTest, JsonSaysWhatWasCounted) {
  const json::value parsed = json::parse(format_json(replay_json(report_)));
  const json::object& object = parsed.as_object();
  EXPECT_EQ(object.at("version").as_string(), "1.2.3");
  EXPECT_EQ(object.at("path").as_string(), "shared memory");
  EXPECT_EQ(object.at("trace").at("name").as_string(), trace_.name);
  EXPECT_EQ(object.at("requests").to_number<int>(), 20);
  EXPECT_EQ(object.at("local_hits").to_number<int>(), 10);
  EXPECT_EQ(object.at("verdicts").at("ready").to_number<int>(), 60);
  EXPECT_EQ(object.at("verdicts").at("recompute").to_number<int>(), 30);
  EXPECT_EQ(object.at("verdicts").at("recompute_by_reason").at("unreachable").to_number<int>(), 2);
  EXPECT_EQ(object.at("puts").at("not_acknowledged").to_number<int>(), 1);
  EXPECT_EQ(object.at("wrong_bytes").to_number<int>(), 0);
  EXPECT_NEAR(object.at("fetch_us").at("p50").to_number<double>(), 50, 2);
  EXPECT_NEAR(object.at("fetch_us").at("p90").to_number<double>(), 90, 2);
  EXPECT_TRUE(object.at("fetch_us").at("p99").is_null());  // one sample of 100 lies beyond it
  EXPECT_NEAR(object.at("bytes_per_s").to_number<double>(), 60 * 65536 / 0.5, 1e3);
  EXPECT_GT(object.at("hardware").at("cores").to_number<int>(), 0);
}

TEST_F(ReportTest, HedgesAreToldWhereTheyWereAskedFor) {
  result_.hedges = 5;
  result_.hedges_won = 2;
  options_.prefill_tokens_per_s = 7;
  EXPECT_THAT(replay_table(report_), Not(HasSubstr("hedges")));
  options_.hedge = true;
  EXPECT_THAT(replay_table(report_), HasSubstr("hedges                   5, 2 came first\n"));
  const json::value parsed = json::parse(format_json(replay_json(report_)));
  EXPECT_EQ(parsed.at("hedges").to_number<int>(), 5);
  EXPECT_EQ(parsed.at("hedges_won").to_number<int>(), 2);
  EXPECT_TRUE(parsed.at("configuration").at("hedge").as_bool());
  EXPECT_EQ(parsed.at("configuration").at("prefill_tokens_per_s").to_number<int>(), 7);
}

TEST_F(ReportTest, WhatToDoAboutANodeThatIsFullIsTold) {
  EXPECT_THAT(replay_table(report_), HasSubstr("  not: timed out         1\n"));
  result_.puts[static_cast<size_t>(Code::kExhausted)] = 3;
  const std::string table = replay_table(report_);
  EXPECT_THAT(table, HasSubstr("  not: exhausted         3: no slot was free in time."));
  EXPECT_THAT(table, HasSubstr("node.evict"));
}

TEST_F(ReportTest, HitRatesAreSharesOfTheDemand) {
  const std::vector<HitRatePoint> points = hit_rates(result_);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_DOUBLE_EQ(points[0].window, 0.48);
  EXPECT_DOUBLE_EQ(points[0].window_local, 0.08);
  EXPECT_DOUBLE_EQ(points[1].window, 0.92);
  EXPECT_DOUBLE_EQ(points[1].cumulative, 0.70);
}

TEST_F(ReportTest, WhatBefellTheReplayIsTold) {
  result_.events = {{11, "node <n1> killed"}};
  const json::value parsed = json::parse(format_json(replay_json(report_)));
  EXPECT_EQ(json::serialize(parsed.at("events")), R"([{"request":11,"what":"node <n1> killed"}])");
  EXPECT_EQ(parsed.at("fetch_us_over_time").at(1).at("p50_us").to_number<double>(), 100);
  EXPECT_EQ(parsed.at("fetch_us_over_time").at(1).at("p99_us").to_number<double>(), 2000);
  EXPECT_THAT(replay_table(report_), HasSubstr("node <n1> killed         after request 11\n"));
  EXPECT_THAT(replay_html(report_), HasSubstr("node &lt;n1&gt; killed</text>"));
}

TEST_F(ReportTest, LatencyOverTimeStandsOnALogarithmicScale) {
  const std::string html = replay_html(report_);
  const size_t at = html.find("aria-label=\"Fetch latency over time\"");
  ASSERT_NE(at, std::string::npos);
  // From 1 µs at the bottom (308) to 10 ms at the top (58): 1, 2, 100 and 2,000 µs.
  const std::string chart = html.substr(at, html.find("</svg>", at) - at);
  EXPECT_THAT(chart, HasSubstr("points=\"458.0,308.0 840.0,183.0 \""));
  EXPECT_THAT(chart, HasSubstr("points=\"458.0,289.2 840.0,101.7 \""));
}

TEST_F(ReportTest, WindowWithoutAFetchIsNoPointOfLatency) {
  result_.windows[0].fetch_p50_ns = 0;
  EXPECT_THAT(replay_html(report_), HasSubstr("points=\"840.0,"));
}

TEST_F(ReportTest, ThePageNeedsNothingElse) {
  const std::string folder = testing::TempDir() + "farpage_report/inner";
  ASSERT_TRUE(write_report(folder, report_).has_value());
  const std::string html = read_file(folder + "/report.html");
  EXPECT_THAT(html, Not(HasSubstr("http")));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("a &lt;b&gt; &amp; &quot;c&quot;.jsonl"));
  EXPECT_THAT(html, HasSubstr("Distribution of fetch latency"));
  EXPECT_THAT(html, HasSubstr("Hit rate over time"));
  EXPECT_EQ(json::parse(read_file(folder + "/report.json")).at("requests").to_number<int>(), 20);
  std::filesystem::remove_all(testing::TempDir() + "farpage_report");
}

TEST_F(ReportTest, ASyntheticTraceSaysSo) {
  trace_.synthetic = true;
  EXPECT_THAT(replay_html(report_), HasSubstr("synthetic"));
}

TEST_F(ReportTest, NothingServedIsAReportToo) {
  ReplayResult nothing;
  const ReplayReport empty = {trace_, options_, nothing, capabilities_, paths_, context_};
  EXPECT_THAT(replay_html(empty), HasSubstr("</html>"));
  EXPECT_TRUE(json::parse(format_json(replay_json(empty))).is_object());
}

TEST(Report, AFolderThatCannotBeMade) {
  const Trace trace;
  const ReplayResult result;
  const auto written = write_report(
      "/dev/null/report", {trace, ReplayOptions(), result, Capabilities(), {}, ReplayContext()});
  ASSERT_FALSE(written.has_value());
  EXPECT_THAT(written.error().message, HasSubstr("/dev/null/report"));
}

TEST(FormatJson, IsJson) {
  const json::value value = {
      {"text", "a\"\n"}, {"list", {1, 2.5, nullptr, true}}, {"empty", json::object()}};
  const std::string text = format_json(value);
  EXPECT_EQ(json::parse(text), value);
  EXPECT_EQ(
      text,
      "{\n  \"text\": \"a\\\"\\n\",\n  \"list\": [1, 2.5, null, true],\n  \"empty\": {}\n}\n");
}

}  // namespace
}  // namespace farpage
