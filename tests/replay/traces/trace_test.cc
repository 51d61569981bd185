#include "replay/traces/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "replay/text/line_reader.h"

namespace farpage {
namespace {

using testing::ElementsAre;
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

  Result<Trace> read(const std::string& text) {
    return read_trace(open_mooncake_trace, write(text), 0);
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
  const std::string last = request("5", "[0, 18446744073709551615]");
  const auto trace = read_trace(
      open_mooncake_trace, write(kGood + std::string("\r\n") + last.substr(0, last.size() - 1)), 0);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_FALSE(trace->synthetic);
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->requests[0].timestamp_ms, 5u);
  EXPECT_EQ(trace->requests[0].input_length, 700u);
  EXPECT_EQ(trace->requests[0].output_length, 9u);
  EXPECT_THAT(trace->requests[0].hash_ids, ElementsAre(3, 4));
  EXPECT_THAT(trace->requests[1].hash_ids, ElementsAre(0, UINT64_MAX));
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

TEST_F(TraceTest, IdsAloneAreNeeded) {
  expect_error("{}\n", ":1: ", "hash_ids is missing");
  expect_error(R"({"timestamp": 1, "input_length": 1, "output_length": 1})",
               ":1: ", "--format azure");
  expect_error(R"({"hash_ids": null})", ":1: ", "hash_ids is missing");
  const auto trace = read(R"({"hash_ids": [1, 2], "timestamp": null, "input_length": null})"
                          "\n"
                          R"({"hash_ids": [2]})");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_THAT(trace->requests[0].hash_ids, ElementsAre(1, 2));
  EXPECT_FALSE(trace->has_sessions);
}

TEST_F(TraceTest, DoubleFields) {
  expect_error(R"({"timestamp": 1, "timestamp": 2})", ":1: ", "timestamp stands there twice");
  expect_error(R"({"input_length": 1, "input_tokens": 2})", ":1: ", "input_tokens stands there");
}

TEST_F(TraceTest, FieldsHaveOtherNamesToo) {
  const auto trace =
      read(R"({"created_time": 5.5, "input_tokens": 700, "output_tokens": 9, "hash_ids": [3, 4]})");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->requests[0].timestamp_ms, 5.5);
  EXPECT_EQ(trace->requests[0].input_length, 700u);
  EXPECT_EQ(trace->requests[0].output_length, 9u);
}

TEST_F(TraceTest, ANumberIsANumberHoweverItIsWritten) {
  const auto trace = read(
      R"({"timestamp": 0.0, "input_length": 1536.0, "output_length": 1.2e1, "hash_ids": [1.0, 2e0]})"
      "\n"
      R"({"timestamp": 512.25, "input_length": 1, "output_length": 1, "hash_ids": [1]})"
      "\n"
      R"({"timestamp": 512.75, "input_length": 1, "output_length": 1, "hash_ids": [-0.0]})"
      "\n" +
      request("1e3", "[1]"));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  ASSERT_EQ(trace->requests.size(), 4u);
  EXPECT_EQ(trace->requests[0].input_length, 1536u);
  EXPECT_EQ(trace->requests[0].output_length, 12u);
  EXPECT_THAT(trace->requests[0].hash_ids, ElementsAre(1, 2));
  EXPECT_EQ(trace->requests[1].timestamp_ms, 512.25);
  EXPECT_THAT(trace->requests[2].hash_ids, ElementsAre(0));
  EXPECT_EQ(trace->requests[3].timestamp_ms, 1'000);
  // Fractions count for the order, too.
  expect_error(request("5.75", "[1]") + request("5.25", "[1]"), ":2: ", "5.25 comes after 5.75");
}

TEST_F(TraceTest, NumbersOutOfRangeAreRefusedWithTheirUnit) {
  expect_error(request("-5", "[1]"),
               ":1: ", "timestamp is -5; it must be a number of milliseconds from 0 on");
  expect_error(request("-0.5", "[1]"), ":1: ", "timestamp is -0.5");
  expect_error(request("\"now\"", "[1]"), ":1: ", "timestamp is \"now\"");
  expect_error(request("true", "[1]"), ":1: ", "timestamp is true");
  expect_error(request("18446744073709551616", "[1]"), ":1: ", "more than 64 bits");
  expect_error(request("1e999", "[1]"), ":1: ", "this is no JSON object");
  expect_error(R"({"input_length": 1.5, "hash_ids": [1]})",
               ":1: ", "input_length is 1.5; it must be a whole number of tokens from 0");
  expect_error(R"({"output_length": -1, "hash_ids": [1]})", ":1: ", "output_length is -1");
  expect_error(R"({"output_length": 1e300, "hash_ids": [1]})", ":1: ", "output_length is 1e+300");
}

TEST_F(TraceTest, WhateverAProducerNamesABlockByIsAnId) {
  const auto trace =
      read(request("1", "[15111065706836454659, 18446744073709551615, -2, -9223372036854775808]") +
           request("1", R"(["a3f0", "b", "", "a3f0", "3"])") + request("1", "[3]"));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_THAT(trace->requests[0].hash_ids,
              ElementsAre(15111065706836454659U, UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 63));
  const auto& texts = trace->requests[1].hash_ids;
  EXPECT_EQ(texts[0], texts[3]);
  EXPECT_EQ((std::set<uint64_t>(texts.begin(), texts.end()).size()), 4u);
  EXPECT_NE(texts[4], trace->requests[2].hash_ids[0]);
}

TEST_F(TraceTest, WhatIsNoIdIsRefused) {
  expect_error(request("1", "[1, 1.5]"), ":1: ", "an id in hash_ids is 1.5");
  // Two ids would become one.
  expect_error(request("1", "[9007199254740994.0]"), ":1: ", "exactly written");
  expect_error(request("1", "[18446744073709551616]"), ":1: ", "more than 64 bits");
  expect_error(request("1", "[[1]]"), ":1: ", "an id in hash_ids is [1]");
  expect_error(request("1", "[null]"), ":1: ", "an id in hash_ids is null");
  expect_error(request("1", "[true]"), ":1: ", "an id in hash_ids is true");
  expect_error(request("1", "7"), ":1: ", "hash_ids is no array");
}

TEST_F(TraceTest, WhatIsOfAnotherFormIsToldSo) {
  for (const auto& [line, what] :
       {std::pair(R"({"id": "s", "requests": []})", ":1: this is a session of an agent's"),
        std::pair(R"({"hash_ids": [1], "wait_for": ["r0"]})", ":1: requests that wait for others"),
        std::pair(R"({"schema": "dynamo.agentic_mooncake", "version": 2})", "--format agent")}) {
    const auto trace = read(line);
    ASSERT_FALSE(trace.has_value()) << line;
    EXPECT_EQ(trace.error().code, Code::kNotFound);
    EXPECT_THAT(trace.error().message, HasSubstr(what));
    EXPECT_THAT(trace.error().message, testing::Not(HasSubstr("mend or remove")));
  }
  EXPECT_TRUE(read(R"({"hash_ids": [1], "wait_for": [], "dependencies": []})").has_value());
}

TEST_F(TraceTest, ABlockHasMooncakesTokensUnlessARequestContradicts) {
  const auto of = [&](const std::string& lengths) { return read(lengths)->block_tokens; };
  EXPECT_EQ(of(R"({"hash_ids": [1]})"), 512u);
  EXPECT_EQ(of(R"({"input_length": 513, "hash_ids": [1, 2]})"), 512u);
  EXPECT_EQ(of(R"({"input_length": 1023, "hash_ids": [1]})"), 512u);  // of full blocks alone
  EXPECT_EQ(of(R"({"input_length": 33, "hash_ids": [1, 2, 3]})"), std::nullopt);
}

TEST_F(TraceTest, ADelayCountsFromTheRequestBeforeInItsSession) {
  const auto trace = read(R"({"session_id": "a", "timestamp": 0, "hash_ids": [1]})"
                          "\n"
                          R"({"session_id": "a", "delay": 500.5, "hash_ids": [2]})"
                          "\n"
                          R"({"session_id": "a", "delay_ms": 1, "hash_ids": [3]})"
                          "\n"
                          R"({"session_id": "b", "timestamp": 100, "hash_ids": [4]})"
                          "\n"
                          R"({"session_id": "b", "delay": 400.5, "hash_ids": [5]})"
                          "\n"
                          R"({"session_id": "c", "timestamp": 501, "hash_ids": [6]})");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_TRUE(trace->has_sessions);
  std::vector<std::tuple<double, uint64_t, uint32_t, uint32_t>> read;
  for (const TraceRequest& request : trace->requests) {
    read.emplace_back(request.timestamp_ms, request.hash_ids[0], request.session, request.turn);
  }
  using Expected = std::tuple<double, uint64_t, uint32_t, uint32_t>;
  EXPECT_THAT(read, ElementsAre(Expected(0, 1, 0, 0), Expected(100, 4, 1, 0),
                                Expected(500.5, 2, 0, 1), Expected(500.5, 5, 1, 1),
                                Expected(501, 6, 2, 0), Expected(501.5, 3, 0, 2)));
}

TEST_F(TraceTest, WithoutTimesRequestsStandWhereTheyAreAndDelaysCount) {
  const auto trace = read(R"({"session_id": 0, "hash_ids": [1]})"
                          "\n"
                          R"({"session_id": 0, "hash_ids": [2], "delay": 500})"
                          "\n"
                          R"({"session_id": 1, "hash_ids": [3]})"
                          "\n"
                          R"({"hash_ids": [4]})");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  std::vector<uint64_t> order;
  for (const TraceRequest& request : trace->requests) order.push_back(request.hash_ids[0]);
  EXPECT_THAT(order, ElementsAre(1, 3, 4, 2));
  EXPECT_NE(trace->requests[2].session, trace->requests[1].session);
}

TEST_F(TraceTest, ADelayThatComesTooLateForItsPlaceIsRefused) {
  expect_error(R"({"session_id": "a", "timestamp": 0, "hash_ids": [1]})"
               "\n"
               R"({"session_id": "b", "timestamp": 1000, "hash_ids": [2]})"
               "\n"
               R"({"session_id": "a", "delay": 10, "hash_ids": [3]})",
               ":3: ", "its delay makes it 10 ms, and 1000 ms has come before");
  expect_error(R"({"session_id": "a", "delay": -1, "hash_ids": [1]})", ":1: ", "delay is -1");
}

TEST_F(TraceTest, ChatsGoOnFromTheirParentsAndTheirTimesAreSeconds) {
  const auto trace = read(
      R"({"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "turn": 1, "hash_ids": [1]})"
      "\n"
      R"({"chat_id": 200, "parent_chat_id": -1, "timestamp": 61.2, "turn": 1, "hash_ids": [2]})"
      "\n"
      R"({"chat_id": 160, "parent_chat_id": 159, "timestamp": 62.5, "turn": 2, "hash_ids": [1]})"
      "\n"
      R"({"chat_id": 161, "parent_chat_id": 160, "timestamp": 63, "turn": 3, "hash_ids": [1]})"
      "\n"
      R"({"chat_id": 300, "parent_chat_id": 7, "timestamp": 64, "turn": 9, "hash_ids": [1]})");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->requests[2].timestamp_ms, 62'500);
  std::vector<std::pair<uint32_t, uint32_t>> places;
  for (const TraceRequest& each : trace->requests) places.emplace_back(each.session, each.turn);
  EXPECT_THAT(places, ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(0, 1),
                                  std::pair(0, 2), std::pair(2, 8)));
  expect_error(R"({"chat_id": 1, "timestamp": -1, "hash_ids": [1]})", ":1: ", "number of seconds");
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

TEST_F(TraceTest, AnEndlessFileOfZerosIsNoText) {
  const auto trace = read_trace(open_mooncake_trace, "/dev/zero", 0);
  ASSERT_FALSE(trace.has_value());
  EXPECT_THAT(trace.error().message, HasSubstr("/dev/zero is a binary file"));
}

}  // namespace
}  // namespace farpage
