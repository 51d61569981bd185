#include "replay/traces/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "replay/traces/line_reader.h"

namespace farpage {
namespace {

using testing::HasSubstr;

constexpr const char* kGood =
    R"({"timestamp": 5, "input_length": 700, "output_length": 9, "hash_ids": [3, 4]})"
    "\n";

class TraceTest : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    path_ = testing::TempDir() + "farpage_trace_" +
            testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }

  void TearDown() override { std::filesystem::remove(path_); }

  void expect_error(const std::string& text, const std::string& line, const std::string& what) {
    const Result<Trace> trace = read_trace(open_mooncake_trace, write(text), 0);
    ASSERT_FALSE(trace.has_value()) << text.substr(0, 200);
    EXPECT_EQ(trace.error().code, Code::kInvalid);
    EXPECT_THAT(trace.error().message, HasSubstr(path_ + line));
    EXPECT_THAT(trace.error().message, HasSubstr(what));
  }

  std::string path_;
};

std::string request(const std::string& timestamp, const std::string& ids) {
  return R"({"timestamp": )" + timestamp +
         R"(, "input_length": 1, "output_length": 1, "hash_ids": )" + ids + "}\n";
}

TEST_F(TraceTest, ReadsRequestsInOrder) {
  const std::string last = request("5", "[0, 9223372036854775808]");
  const auto trace = read_trace(
      open_mooncake_trace, write(kGood + std::string("\r\n") + last.substr(0, last.size() - 1)), 0);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_FALSE(trace->synthetic);
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->requests[0].timestamp_ms, 5u);
  EXPECT_EQ(trace->requests[0].input_length, 700u);
  EXPECT_EQ(trace->requests[0].output_length, 9u);
  EXPECT_THAT(trace->requests[0].hash_ids, testing::ElementsAre(3, 4));
  EXPECT_THAT(trace->requests[1].hash_ids, testing::ElementsAre(0, kMaxHashId));
  EXPECT_EQ(trace->pages(), 4u);
  EXPECT_EQ(trace->longest_request(), 2u);
}

TEST_F(TraceTest, StopsAfterTheRequestsAskedFor) {
  const auto trace = read_trace(open_mooncake_trace, write(kGood + std::string("rubbish")), 1);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->requests.size(), 1u);
}

TEST_F(TraceTest, UnknownFieldsArePassedOver) {
  std::string text = kGood;
  text.insert(1, R"("model": {"name": ["x"]}, )");
  EXPECT_TRUE(read_trace(open_mooncake_trace, write(text), 0).has_value());
}

TEST_F(TraceTest, ThereIsNoSuchFile) {
  const auto trace = read_trace(open_mooncake_trace, "/nowhere/trace.jsonl", 0);
  ASSERT_FALSE(trace.has_value());
  EXPECT_EQ(trace.error().code, Code::kNotFound);
  EXPECT_THAT(trace.error().message, HasSubstr("/nowhere/trace.jsonl"));
}

TEST_F(TraceTest, AFolderIsNoTrace) {
  const auto trace = read_trace(open_mooncake_trace, testing::TempDir(), 0);
  ASSERT_FALSE(trace.has_value());
  EXPECT_THAT(trace.error().message, HasSubstr("cannot read the trace"));
}

TEST_F(TraceTest, AnEmptyTrace) {
  expect_error("", "", "the trace is empty");
  expect_error("\n \n", "", "the trace is empty");
  expect_error(request("0", "[]"), "", "no request of the trace has a page");
}

TEST_F(TraceTest, BrokenLines) {
  const std::string good = kGood;
  for (const std::string& line :
       {std::string("{"), std::string("[1, 2]"), std::string("rubbish"),
        good.substr(0, good.size() - 3), good.substr(0, good.size() - 1) + "x",
        std::string("\0\0\0", 3), std::string("{\"timestamp\": \xff}")}) {
    expect_error(good + line + "\n", ":2: ", "this is no JSON object");
  }
}

TEST_F(TraceTest, MissingAndDoubleFields) {
  expect_error("{}\n", ":1: ", "timestamp is missing");
  expect_error(R"({"timestamp": 1, "input_length": 1, "output_length": 1})",
               ":1: ", "hash_ids is missing");
  expect_error(R"({"timestamp": 1, "timestamp": 2})", ":1: ", "timestamp stands there twice");
}

TEST_F(TraceTest, NumbersOutOfRange) {
  expect_error(request("-5", "[1]"), ":1: ", "timestamp is -5; it must be a whole number");
  expect_error(request("1.5", "[1]"), ":1: ", "timestamp is 1.5");
  expect_error(request("\"now\"", "[1]"), ":1: ", "timestamp is \"now\"");
  expect_error(request("null", "[1]"), ":1: ", "timestamp is null");
  expect_error(request("18446744073709551616", "[1]"), ":1: ", "this is no JSON object");
  expect_error(request("1", "[1, -2]"), ":1: ", "an id in hash_ids is -2");
  expect_error(request("1", "[9223372036854775809]"),
               ":1: ", "an id in hash_ids is 9223372036854775809");
  expect_error(request("1", "[[1]]"), ":1: ", "an id in hash_ids is [1]");
  expect_error(request("1", "7"), ":1: ", "hash_ids is no array");
}

TEST_F(TraceTest, OutOfOrder) {
  expect_error(request("7", "[1]") + kGood, ":2: ", "timestamp 5 comes after 7");
}

TEST_F(TraceTest, EnormousLines) {
  expect_error(kGood + std::string(kMaxTraceLineBytes + 1, ' '),
               ":2: ", "the line is longer than 16 MiB");
  std::string ids = "[0";
  for (uint64_t i = 0; i < kMaxRequestPages; ++i) ids += ",1";
  expect_error(request("1", ids + "]"), ":1: ", "more than 1000000 ids");
}

TEST_F(TraceTest, AnErrorIsShortHoweverLongTheValue) {
  const auto trace = read_trace(open_mooncake_trace,
                                write(request("\"" + std::string(100'000, 'x') + "\"", "[1]")), 0);
  ASSERT_FALSE(trace.has_value());
  EXPECT_LT(trace.error().message.size(), 400u);
}

TEST_F(TraceTest, AnEndlessFileOfZeros) {
  const auto trace = read_trace(open_mooncake_trace, "/dev/zero", 0);
  ASSERT_FALSE(trace.has_value());
  EXPECT_THAT(trace.error().message, HasSubstr("/dev/zero:1: the line is longer"));
}

}  // namespace
}  // namespace farpage
