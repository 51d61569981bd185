#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lab/paging/report_parts.h"
#include "report/html_page.h"

namespace farpage::paging {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

RunChart chart_of(size_t policies, std::initializer_list<double> budgets) {
  RunChart chart = {"Hits", "pages", "share", LineChart::Scale::kShare, {}};
  for (size_t policy = 0; policy < policies; ++policy) {
    for (const double budget : budgets) {
      chart.runs.push_back({fmt::format("p{}", policy), budget, 0.25});
    }
  }
  return chart;
}

TEST(RunChart, OfOneBudgetHasABarARun) {
  const std::string picture = draw(chart_of(10, {512}));
  EXPECT_EQ(count(picture, "<rect"), 10u);
  EXPECT_EQ(count(picture, ">25.0%<"), 10u);
  EXPECT_THAT(picture, HasSubstr(">p9<"));
  EXPECT_THAT(picture, Not(HasSubstr("<polyline")));
}

TEST(RunChart, PointsOfOneLineAreALineWhereverTheyAre) {
  RunChart chart = {"Distance", "pages", "share", LineChart::Scale::kShare, {}};
  for (const double share : {0.1, 0.5, 0.9}) chart.runs.push_back({"at most", 40, share});
  EXPECT_THAT(draw(chart), HasSubstr("<polyline"));
}

TEST(RunChart, ClocksBesideEachOtherHaveAColourEach) {
  RunChart chart = {"Stalls", "pages", "seconds", LineChart::Scale::kLog, {}};
  for (const char* clock : {"virtual", "live"}) chart.runs.push_back({"lru + none", 512, 2, clock});
  const std::string picture = draw(chart);
  EXPECT_THAT(picture, HasSubstr("class=\"s0\"/>"));
  EXPECT_THAT(picture, HasSubstr("class=\"s1\"/>"));
  EXPECT_THAT(picture, HasSubstr("virtual"));
  EXPECT_THAT(picture, HasSubstr("live"));
}

TEST(RunChart, HasEightLinesAtMostAndLeavesTheOthersToTheTable) {
  const std::string eight = draw(chart_of(8, {10, 20}));
  EXPECT_EQ(count(eight, "<polyline"), 8u);
  EXPECT_THAT(eight, Not(HasSubstr("more are in the table")));

  const std::string picture = draw(chart_of(12, {10, 20}));
  EXPECT_EQ(count(picture, "<polyline"), 8u);
  // Each line of the legend has a colour of its own.
  for (int series = 0; series < 8; ++series) {
    EXPECT_EQ(count(picture, fmt::format("<span class=\"s{}\">", series)), 1u);
  }
  EXPECT_THAT(picture, HasSubstr("4 more are in the table"));
}

TEST(RunChart, WithMoreBarsThanAScreenHasSaysSo) {
  const std::string picture = draw(chart_of(30, {512}));
  EXPECT_EQ(count(picture, "<rect"), 24u);
  EXPECT_THAT(picture, HasSubstr("6 more are in the table"));
}

TEST(HtmlPage, HasColoursForLightScreensAndDarkOnes) {
  const std::string page = html_page("a & b", "");
  EXPECT_THAT(page, HasSubstr("<h1>a &amp; b</h1>"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  for (int series = 0; series < 8; ++series) {
    EXPECT_EQ(count(page, fmt::format("--c{}: #", series)), 2u) << series;
    EXPECT_EQ(count(page, fmt::format("polyline.s{} ", series)), 1u) << series;
  }
}

TEST(HtmlTable, IsScrolledInItsOwnBox) {
  const std::string table = html_table({{"a<b", "c"}, {"1", "2"}});
  EXPECT_THAT(table, HasSubstr("<div class=\"table\"><table>"));
  EXPECT_THAT(table, HasSubstr("<tr><th>a&lt;b</th><th>c</th></tr>"));
  EXPECT_THAT(table, HasSubstr("<tr><td>1</td><td>2</td></tr>"));
}

}  // namespace
}  // namespace farpage::paging
