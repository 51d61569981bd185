#include "lab/vtime/timed_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <vector>

namespace farpage::vtime {
namespace {

using testing::HasSubstr;

class TimedReportTest : public testing::Test {
 protected:
  static TimedRun run(const std::string& prefetcher, uint64_t stall_ns, uint64_t useful = 0) {
    TimedRun run = {"lru", prefetcher, 100, {}, "lru"};
    run.result.steps = 10;
    run.result.stall_ns = stall_ns;
    run.result.end_ns = 1'000'000'000 + stall_ns;
    run.result.prefetch.begun = 8;
    run.result.prefetch.timely = useful;
    return run;
  }

  const paging::AccessTrace trace_ = paging::trace_of_accesses("a,b", true, {{0, 0, 0}});
  const TimedOptions options_ = {};
  const std::vector<TimedRun> runs_ = {run("none", 1'000'000'000), run("oracle", 200'000'000, 8),
                                       run("markov", 600'000'000, 4),
                                       run("random", 1'000'000'000, 1)};
};

TEST_F(TimedReportTest, ARunStandsBesideNoneTheOracleAndRandom) {
  const Beside markov = beside(runs_[2], runs_);
  EXPECT_DOUBLE_EQ(*markov.stall_cut, 0.4);
  EXPECT_DOUBLE_EQ(*markov.normalised_stall, 0.5);
  EXPECT_DOUBLE_EQ(*markov.speedup, 2.0 / 1.6);
  EXPECT_DOUBLE_EQ(*markov.lift, 4);
}
TEST_F(TimedReportTest, WithoutThoseNothingIsSaidOfThem) {
  const std::vector<TimedRun> alone = {runs_[2]};
  const Beside markov = beside(alone[0], alone);
  EXPECT_FALSE(markov.stall_cut || markov.normalised_stall || markov.speedup || markov.lift);
  std::vector<TimedRun> others = runs_;
  for (TimedRun& each : others) each.budget_pages = 7;
  EXPECT_FALSE(beside(runs_[2], others).stall_cut);
  others = runs_;
  for (TimedRun& each : others) each.placement = "fifo";
  EXPECT_FALSE(beside(runs_[2], others).stall_cut);
  const std::string csv = timed_csv({trace_, options_, alone});
  EXPECT_THAT(csv, HasSubstr("\n\"a,b\",true,lru,100,markov,lru,virtual,"));
  EXPECT_THAT(csv, HasSubstr(",,"));
}
TEST_F(TimedReportTest, ALiveRunStandsBesideLiveRunsAlone) {
  std::vector<TimedRun> runs = runs_;
  for (TimedRun each : runs_) {
    each.is_live = true;
    each.result.stall_ns *= 2;
    each.result.wrong_bytes = 3;
    runs.push_back(each);
  }
  EXPECT_DOUBLE_EQ(*beside(runs[6], runs).stall_cut, 0.4);
  EXPECT_DOUBLE_EQ(*beside(runs[2], runs).stall_cut, 0.4);
  runs.erase(runs.begin());  // none, in virtual time
  EXPECT_FALSE(beside(runs[1], runs).stall_cut);
  EXPECT_THAT(timed_csv({trace_, options_, runs}), HasSubstr(",markov,lru,live,"));
  const auto json = boost::json::parse(timed_json({trace_, options_, runs}));
  EXPECT_EQ(json.at("runs").at(1).at("clock"), "virtual");
  EXPECT_EQ(json.at("runs").at(5).at("clock"), "live");
  EXPECT_EQ(json.at("runs").at(5).at("wrong_bytes").to_number<uint64_t>(), 3u);
}
TEST_F(TimedReportTest, EveryFormHasEveryRun) {
  const TimedReport report = {trace_, options_, runs_};
  for (const std::string& text : {timed_table(report), timed_csv(report), timed_html(report)}) {
    for (const TimedRun& run : runs_) EXPECT_THAT(text, HasSubstr(run.prefetcher));
  }
  EXPECT_THAT(timed_table(report), HasSubstr("synthetic"));
  EXPECT_THAT(timed_html(report), HasSubstr("synthetic"));
  EXPECT_THAT(timed_html(report), HasSubstr("<svg"));
  const auto json = boost::json::parse(timed_json(report));
  const auto& markov = json.at("runs").at(2);
  EXPECT_EQ(markov.at("prefetch"), "markov");
  EXPECT_EQ(markov.at("prefetches").to_number<uint64_t>(), 8u);
  EXPECT_DOUBLE_EQ(markov.at("normalised_stall").as_double(), 0.5);
  EXPECT_EQ(json.at("tiers").at(0).at("bytes_per_s").to_number<uint64_t>(), 12'500'000'000u);
  EXPECT_TRUE(boost::json::parse(timed_json({trace_, options_, std::span(runs_).subspan(2, 1)}))
                  .at("runs")
                  .at(0)
                  .at("stall_cut")
                  .is_null());
}
TEST_F(TimedReportTest, WhoReckonsWithProbabilitiesIsJudgedByThem) {
  std::vector<TimedRun> runs = {run("none", 1'000'000'000), run("learned", 600'000'000, 4)};
  runs[1].result.foresight = {.samples = 1'000,
                              .dropped = 7,
                              .base_rate = 0.25,
                              .pr_auc = 0.75,
                              .calibration_error = 0.0625};
  const auto json = boost::json::parse(timed_json({trace_, options_, runs}));
  const auto& learned = json.at("runs").at(1);
  EXPECT_EQ(learned.at("foretold").to_number<uint64_t>(), 1'000u);
  EXPECT_EQ(learned.at("foretold_dropped").to_number<uint64_t>(), 7u);
  EXPECT_DOUBLE_EQ(learned.at("foretold_base_rate").as_double(), 0.25);
  EXPECT_DOUBLE_EQ(learned.at("foretold_pr_auc").as_double(), 0.75);
  EXPECT_DOUBLE_EQ(learned.at("foretold_off").as_double(), 0.0625);
  EXPECT_TRUE(json.at("runs").at(0).at("foretold_pr_auc").is_null());
}

}  // namespace
}  // namespace farpage::vtime
