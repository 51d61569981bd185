#include "replay/traces/azure_trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

class AzureTrace : public testing::Test {
 protected:
  Result<Trace> read(const std::string& text, uint64_t max_requests = 0) const {
    std::ofstream(path_, std::ios::binary) << text;
    return read_trace(open_azure_trace, path_, max_requests);
  }
  void expect_refused(const std::string& text, const std::string& where,
                      const std::string& because) const {
    const auto trace = read(text);
    ASSERT_FALSE(trace.has_value()) << because;
    EXPECT_EQ(trace.error().code, Code::kInvalid);
    EXPECT_THAT(trace.error().message, HasSubstr(path_ + where));
    EXPECT_THAT(trace.error().message, HasSubstr(because));
  }

 private:
  TempDir folder_;
  const std::string path_ = folder_ / "trace.csv";
};

TEST_F(AzureTrace, TimesCountFromTheFirstRequest) {
  const auto trace = read(kHeader +
                          "2023-12-31 23:59:59.9799600,1024,10\r\n"
                          "\n"
                          "2024-01-01 00:00:00.0319600,1025,8\n"
                          "2024-02-29 00:00:00+00:00,3,0");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_FALSE(trace->synthetic);
  EXPECT_EQ(trace->block_tokens, 512u);
  ASSERT_EQ(trace->requests.size(), 3u);
  EXPECT_EQ(trace->requests[0].timestamp_ms, 0u);
  EXPECT_EQ(trace->requests[1].timestamp_ms, 52u);  // 0.979 to 1.031
  // 59 days after the new year, which came 21 ms after the first.
  EXPECT_EQ(trace->requests[2].timestamp_ms, 59 * 86'400'000ULL + 21);
  EXPECT_EQ(trace->requests[1].input_length, 1025u);
  EXPECT_EQ(trace->requests[1].output_length, 8u);
}
TEST_F(AzureTrace, NumbersOfTokensAreWholeHoweverTheyAreWritten) {
  const auto trace = read("\xef\xbb\xbf" + kHeader + "2023-11-16 18:00:00.5,1024.0,1e1\n");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->requests[0].input_length, 1024u);
  EXPECT_EQ(trace->requests[0].output_length, 10u);
  EXPECT_FALSE(trace->has_sessions);
}
TEST_F(AzureTrace, EveryBlockIsOneOfItsOwn) {
  const auto trace = read(kHeader + "2023-11-16 18:00:00.5,1024,1\n2023-11-16 18:00:00.5,1025,1\n");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_THAT(trace->requests[0].hash_ids, ElementsAre(0, 1));
  EXPECT_THAT(trace->requests[1].hash_ids, ElementsAre(2, 3, 4));
}
TEST_F(AzureTrace, StopsAfterSoManyRequests) {
  const auto trace = read(kHeader + "2023-11-16 18:00:00.5,1024,1\nrubbish", 1);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->requests.size(), 1u);
}
TEST_F(AzureTrace, LinesThatAreNoneAreRefused) {
  const std::string time = "2023-11-16 18:00:00.5";
  expect_refused("", "", "the trace is empty");
  expect_refused("time,in,out\n", ":1", "TIMESTAMP,ContextTokens,GeneratedTokens");
  expect_refused(kHeader + time + ",0,1\n", "", "no request of the trace has a page");
  for (const std::string bad :
       {"", "yesterday", "2023-11-16T18:00:00", "2023-02-29 18:00:00", "2023-11-16 24:00:00",
        "2023-11-16 18:60:00", "2023-11-16 18:00:61", "2023-11-16 18:00:00.", "1969-11-16 18:00:00",
        "23-11-16 18:00:00"}) {
    expect_refused(fmt::format("{}{},1,1\n{},1,1\n", kHeader, time, bad), ":3", "the time is no");
  }
  for (const std::string bad :
       {"", ",", ",1", ",1,", ",-1,1", ",1.5,1", ",99999999999999999999,1"}) {
    expect_refused(fmt::format("{}{}{}\n", kHeader, time, bad), ":2", "two numbers of tokens");
  }
  expect_refused(kHeader + time + ",1,1,1\n", ":2", "behind the numbers");
  expect_refused(kHeader + time + ",10000001,1\n", ":2", "more than 10000000 tokens");
  expect_refused(kHeader + time + ",1,1\n2023-11-16 18:00:00.4,1,1\n", ":3", "before");
}
TEST_F(AzureTrace, AFileThatIsNotThereIsNamed) {
  const auto trace = read_trace(open_azure_trace, "/nowhere/trace.csv", 0);
  ASSERT_FALSE(trace.has_value());
  EXPECT_THAT(trace.error().message, HasSubstr("/nowhere/trace.csv"));
}

}  // namespace
}  // namespace farpage
