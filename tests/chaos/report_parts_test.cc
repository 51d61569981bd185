#include "chaos/report_parts.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace farpage::chaos {
namespace {

constexpr std::array<std::string_view, 2> kNames = {"killed", "parted"};
constexpr std::array<uint64_t, 2> kInjected = {12, 3};
constexpr std::array<uint64_t, 2> kFelt = {1, 0};

TEST(ReportParts, KindsStandInRowsBelowTheirHeadings) {
  EXPECT_EQ(kind_rows({kNames, kInjected, kFelt, "felt", 8}),
            "kind             injected     felt\n"
            "killed                 12        1\n"
            "parted                  3        0\n");
}

TEST(ReportParts, FindingsAndLinesStandInRows) {
  EXPECT_EQ(finding_rows(kNames, kInjected),
            "killed                     12\n"
            "parted                      3\n");
  EXPECT_EQ(indented(std::vector<std::string>{"one", "two"}), "  one\n  two\n");
}

TEST(ReportParts, CountsHaveTheirNamesInJson) {
  EXPECT_EQ(boost::json::serialize(counts_json(kNames, kInjected)), R"({"killed":12,"parted":3})");
  EXPECT_EQ(sum_of(kInjected), 15u);
}

}  // namespace
}  // namespace farpage::chaos
