#include "replay/traces/agent_trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
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
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  static std::string session(const std::string& requests, const std::string& block = "64") {
    return R"({"id":"x","block_size":)" + block + R"(,"requests":[)" + requests + "]}";
  }
  Result<Trace> read(const std::string& requests) const {
    return read_agent_trace(write("a.json", session(requests)), 0);
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
  expect_refused("", "no request of the trace has a page");
  expect_refused("[1", "this is no JSON");
  expect_refused("[]", "it is no session");
  expect_refused(R"({"hash_ids":[1]})", "--format mooncake");
  expect_refused(R"({"requests":[]})", "no request of the trace has a page");
  expect_refused(session(kFirst, "0"), "block_size is 0");
  expect_refused(session(kFirst, "-4"), "block_size is -4");
  expect_refused(session(kFirst, "64.5"),
                 "block_size is 64.5; it must be a whole number of tokens");
  expect_refused(R"({"block_size":64})", "requests is missing");
  expect_refused(session(""), "no request of the trace has a page");
  expect_refused(session("7"), "request 1: it is no object");
  expect_refused(session(std::string(kLater) + "," + kFirst), "request 2: it is earlier");
  expect_refused(session(R"({"t":-1,"in":1,"out":1,"hash_ids":[1]})"), "request 1: t is no number");
  expect_refused(session(R"({"t":1,"in":0.5,"hash_ids":[1]})"), "request 1: in is 0.5");
  expect_refused(session(R"({"t":1,"in":1,"out":-1,"hash_ids":[1]})"), "request 1: out is -1");
  expect_refused(session(R"({"t":1,"in":1,"out":1})"), "request 1: hash_ids is missing");
  expect_refused(session(R"({"t":1,"hash_ids":[{}]})"), "an id in hash_ids is {}");
}

// Their first ids, in the order of time.
std::vector<std::pair<double, uint64_t>> firsts(const Trace& trace) {
  std::vector<std::pair<double, uint64_t>> read;
  for (const TraceRequest& request : trace.requests) {
    read.emplace_back(request.timestamp_ms, request.hash_ids.at(0));
  }
  return read;
}

std::vector<double> times(const Trace& trace) {
  std::vector<double> read;
  for (const TraceRequest& request : trace.requests) read.push_back(request.timestamp_ms);
  return read;
}

constexpr const char* kBegins = R"({"t":0.0,"type":"n","hash_ids":[1,2]},)";
constexpr const char* kEnds = R"(,{"t":15.0,"type":"s","hash_ids":[1,7]})";
std::string agent(const std::string& t, const std::string& requests) {
  return R"({"t":)" + t + R"(,"type":"subagent","agent_id":"a","requests":[)" + requests + "]}";
}

TEST_F(AgentTrace, AnAgentsRequestsStandInTheirPlaceAndItsIdsMeanTheSame) {
  const auto trace = read(
      kBegins + agent("5.5", R"({"t":0.0,"hash_ids":[4,5]},{"t":4.0,"hash_ids":[4,1]})") + kEnds);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_THAT(times(*trace), ElementsAre(0, 5'500, 9'500, 15'000));
  const auto& main = trace->requests[0].hash_ids;
  EXPECT_EQ(trace->requests[2].hash_ids[1], main[0]);
  EXPECT_EQ(trace->requests[1].hash_ids[0], trace->requests[2].hash_ids[0]);
  std::vector<std::pair<uint32_t, uint32_t>> places;
  for (const TraceRequest& each : trace->requests) places.emplace_back(each.session, each.turn);
  EXPECT_THAT(places,
              ElementsAre(std::pair(0, 0), std::pair(0, 0), std::pair(0, 1), std::pair(0, 1)));
}

TEST_F(AgentTrace, TimesOfAnAgentThatCountFromTheSessionAreTakenSo) {
  const auto trace =
      read(kBegins + agent("5.5", R"({"t":5.5,"hash_ids":[4]},{"t":20,"hash_ids":[4]})") + kEnds);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_THAT(times(*trace), ElementsAre(0, 5'500, 15'000, 20'000));
}

TEST_F(AgentTrace, AgentsBeginAgentsAndRunBesideEachOther) {
  const auto trace =
      read(kBegins +
           agent("5", R"({"t":0.0,"hash_ids":[4]},)" + agent("2", R"({"t":0.5,"hash_ids":[5]})") +
                          R"(,{"t":9,"hash_ids":[6]})") +
           "," + agent("6", R"({"t":0.0,"hash_ids":[8]})") + "," + agent("6", "") + kEnds);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_THAT(times(*trace), ElementsAre(0, 5'000, 6'000, 7'500, 14'000, 15'000));
  const std::string bad = agent("5", R"({"t":0.0,"hash_ids":[4]},{"t":1})");
  expect_refused(session(kBegins + bad),
                 "request 2: of its agent's, request 2: hash_ids is missing");
  expect_refused(session(R"({"t":1,"type":"subagent"})"), "request 1: requests is missing");
  std::string deep = R"({"t":0,"hash_ids":[1]})";
  for (int i = 0; i < 33; ++i) deep = agent("0", deep);
  expect_refused(session(deep), "more than 32 agents");
}

TEST_F(AgentTrace, IdsMeanTheSameInAllSessionsWhereTheFileSaysSo) {
  const auto of_scope = [](const std::string& scope) {
    return R"({"hash_id_scope":)" + scope + R"(,"requests":[{"t":0,"hash_ids":[1]}]})" + "\n";
  };
  const auto pages = [&](const std::string& text) {
    std::set<uint64_t> all;
    for (const auto& [time, id] : firsts(*read_agent_trace(write("s.jsonl", text), 0))) {
      all.insert(id);
    }
    return all.size();
  };
  const std::string global = of_scope("\"global\"");
  const std::string local = of_scope("\"local\"");
  EXPECT_EQ(pages(global + global), 1u);
  EXPECT_EQ(pages(local + local), 2u);
  EXPECT_EQ(pages(of_scope("null") + of_scope("null")), 2u);
  EXPECT_EQ(pages(global + local + global), 2u);
  expect_refused(of_scope("\"tenant\""), "hash_id_scope is \"tenant\"");
  expect_refused(of_scope("3"), "hash_id_scope is 3");
}

TEST_F(AgentTrace, TwoModelsShareNoPage) {
  const auto trace =
      read(R"({"t":0,"model":"large","hash_ids":[1]},)"
           R"({"t":1,"type":"subagent","models":["small"],"requests":[{"t":0,"hash_ids":[1]}]},)"
           R"({"t":2,"model":"small","hash_ids":[1]},{"t":3,"model":"large","hash_ids":[1]})");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  const auto ids = firsts(*trace);
  EXPECT_EQ(ids[0].second, ids[3].second);
  EXPECT_EQ(ids[1].second, ids[2].second);
  EXPECT_NE(ids[0].second, ids[1].second);
}

TEST_F(AgentTrace, AFileHasASessionALine) {
  const std::string text =
      session(std::string(kFirst) + "," + kLater) + "\r\n\n" + session(R"({"t":1,"hash_ids":[1]})");
  const auto of_lines = read_agent_trace(write("s.jsonl", text), 0);
  ASSERT_TRUE(of_lines.has_value()) << of_lines.error().message;
  write("folder/a.json", session(std::string(kFirst) + "," + kLater));
  write("folder/b.json", session(R"({"t":1,"hash_ids":[1]})"));
  const auto of_files = read_agent_trace(folder_ / "folder", 0);
  ASSERT_TRUE(of_files.has_value());
  EXPECT_EQ(firsts(*of_lines), firsts(*of_files));
  // The name of the file does not matter, nor do lines within one session.
  std::string broken = text;
  broken.insert(broken.find(R"("requests")"), "\n");
  EXPECT_EQ(read_agent_trace(write("s.txt", text), 0)->requests.size(), 3u);
  EXPECT_EQ(
      read_agent_trace(write("one.json", broken.substr(0, broken.find('\r'))), 0)->requests.size(),
      2u);
}

TEST_F(AgentTrace, ALineThatIsNoSessionIsNamed) {
  const std::string good = session(kFirst) + "\n";
  for (const auto& [line, because] :
       {std::pair("{", "this is no JSON"), std::pair("{}", "requests is missing"),
        std::pair(R"({"requests":[{"t":0,"hash_ids":[1]},{"t":1}]})", "request 2: hash_ids")}) {
    const std::string path = write("s.jsonl", fmt::format("{}{}\n{}", good, line, good));
    const auto trace = read_agent_trace(path, 0);
    ASSERT_FALSE(trace.has_value()) << line;
    EXPECT_THAT(trace.error().message, HasSubstr(path + ":2: "));
    EXPECT_THAT(trace.error().message, HasSubstr(because));
  }
}

TEST_F(AgentTrace, WhatIsNotNeededIsNotAskedFor) {
  const auto trace = read_agent_trace(
      write("a.json", R"({"requests":[{"hash_ids":[1]},{"in":null,"hash_ids":[2,1]}]})"), 0);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_FALSE(trace->block_tokens.has_value());
  EXPECT_EQ(trace->requests[0].hash_ids[0], trace->requests[1].hash_ids[1]);
  write("b.json", session(kFirst));
  const auto several = read_agent_trace(folder_.path(), 0);
  ASSERT_FALSE(several.has_value());
  EXPECT_THAT(several.error().message,
              HasSubstr("t is missing from a session (" + std::string(folder_ / "a.json") + ")"));
  EXPECT_THAT(several.error().message, HasSubstr("single session is replayed without"));
}

TEST_F(AgentTrace, WhatRequestsHaveInCommonComesOutAsItWentIn) {
  std::string text;
  std::vector<std::vector<int>> written;
  std::vector<int> ids;
  for (int turn = 0; turn < 60; ++turn) {
    // Grows, falls back, stays, and begins anew.
    if (turn % 7 == 3) ids.resize(ids.size() / 2);
    if (turn % 11 == 5) ids.clear();
    for (int i = 0; i < turn % 4; ++i) ids.push_back(turn * 10 + i);
    written.push_back(ids);
    std::string list;
    for (const int id : ids) list += (list.empty() ? "" : ",") + std::to_string(id);
    text += (text.empty() ? "" : ",") + (R"({"hash_ids":[)" + list + "]}");
  }
  const auto trace = read(text);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  ASSERT_EQ(trace->requests.size(), written.size());
  std::map<int, uint64_t> pages;
  for (size_t i = 0; i < written.size(); ++i) {
    ASSERT_EQ(trace->requests[i].hash_ids.size(), written[i].size()) << i;
    for (size_t k = 0; k < written[i].size(); ++k) {
      const uint64_t page = trace->requests[i].hash_ids[k];
      EXPECT_EQ(pages.try_emplace(written[i][k], page).first->second, page) << i;
    }
  }
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
  EXPECT_THAT(read_agent_trace(folder_ / "none.json", 0).error().message, HasSubstr("cannot open"));
}

}  // namespace
}  // namespace farpage
