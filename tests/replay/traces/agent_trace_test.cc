#include "replay/traces/agent_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AgentTrace : public testing::Test {
 protected:
  std::string write(const std::string& file, const std::string& text) const {
    std::string path = folder_ / file;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  static std::string session(const std::string& requests, const std::string& block = "64") {
    return R"({"id":"x","block_size":)" + block + R"(,"requests":[)" + requests + "]}";
  }
  void expect_refused(const std::string& text, const std::string& because) const {
    const std::string path = write("bad.json", text);
    const auto trace = read_agent_trace(path, 0);
    ASSERT_FALSE(trace.has_value()) << because;
    EXPECT_THAT(trace.error().message, HasSubstr(path));
    EXPECT_THAT(trace.error().message, HasSubstr(because));
  }

  TempDir folder_;
};

constexpr const char* kFirst = R"({"t":0.0,"type":"n","in":130,"out":5,"hash_ids":[1,2,3]})";
constexpr const char* kLater = R"({"t":2.5,"type":"s","in":70,"out":9,"hash_ids":[1,4]})";

TEST_F(AgentTrace, ASessionIsRead) {
  const auto trace =
      read_agent_trace(write("a.json", session(std::string(kFirst) + "," + kLater)), 0);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->block_tokens, 64u);
  EXPECT_FALSE(trace->synthetic);
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->requests[1].timestamp_ms, 2'500u);
  EXPECT_EQ(trace->requests[1].input_length, 70u);
  EXPECT_EQ(trace->requests[1].output_length, 9u);
  EXPECT_EQ(trace->requests[1].hash_ids[0], trace->requests[0].hash_ids[0]);
  EXPECT_NE(trace->requests[1].hash_ids[1], trace->requests[0].hash_ids[1]);
}

TEST_F(AgentTrace, SessionsOfAFolderBeginTogetherAndShareNoPage) {
  write("a.json", session(std::string(kFirst) + "," + kLater));
  write("b.json", session(R"({"t":1,"in":1,"out":1,"hash_ids":[1]})"));
  write("notes.txt", "no session");
  const auto trace = read_agent_trace(folder_.path(), 0);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  ASSERT_EQ(trace->requests.size(), 3u);
  EXPECT_EQ(trace->requests[1].timestamp_ms, 1'000u);
  // The turn in its session: of a's second request, not of the trace's third.
  EXPECT_TRUE(trace->has_sessions);
  std::vector<uint32_t> turns;
  std::vector<uint32_t> sessions;
  for (const TraceRequest& request : trace->requests) {
    turns.push_back(request.turn);
    sessions.push_back(request.session);
  }
  EXPECT_THAT(sessions, ElementsAre(0, 1, 0));
  EXPECT_THAT(turns, ElementsAre(0, 0, 1));
  EXPECT_NE(trace->requests[1].hash_ids[0], trace->requests[0].hash_ids[0]);
  EXPECT_EQ(read_agent_trace(folder_.path(), 2)->requests.size(), 2u);
}

TEST_F(AgentTrace, BadSessionsAreRefusedWithTheRequest) {
  expect_refused("", "this is no JSON");
  expect_refused("[1", "this is no JSON");
  expect_refused("[]", "block_size is missing");
  expect_refused(R"({"requests":[]})", "block_size is missing");
  expect_refused(session(kFirst, "0"), "block_size is 0");
  expect_refused(session(kFirst, "-4"), "block_size is -4");
  expect_refused(R"({"block_size":64})", "requests is missing");
  expect_refused(session(""), "no request of the trace has a page");
  expect_refused(session("7"), "request 1: it is no object");
  expect_refused(session(std::string(kLater) + "," + kFirst), "request 2: it is earlier");
  expect_refused(session(R"({"t":-1,"in":1,"out":1,"hash_ids":[1]})"), "request 1: t is no number");
  expect_refused(session(R"({"t":1,"out":1,"hash_ids":[1]})"), "request 1: in is missing");
  expect_refused(session(R"({"t":1,"in":1,"out":-1,"hash_ids":[1]})"), "request 1: out is -1");
  expect_refused(session(R"({"t":1,"in":1,"out":1})"), "request 1: hash_ids is missing");
  expect_refused(session(R"({"t":1,"in":1,"out":1,"hash_ids":[140737488355328]})"),
                 "an id in hash_ids is 140737488355328");
}

TEST_F(AgentTrace, SessionsWithOtherBlocksAreRefused) {
  write("a.json", session(kFirst));
  write("b.json", session(kFirst, "32"));
  EXPECT_THAT(read_agent_trace(folder_.path(), 0).error().message,
              HasSubstr("block_size is 32, and that of the sessions before 64"));
}

TEST_F(AgentTrace, AFolderWithoutSessionsIsRefused) {
  EXPECT_THAT(read_agent_trace(folder_.path(), 0).error().message,
              HasSubstr("no file there ends in"));
  EXPECT_THAT(read_agent_trace(folder_ / "none.json", 0).error().message, HasSubstr("cannot read"));
}

}  // namespace
}  // namespace farpage
