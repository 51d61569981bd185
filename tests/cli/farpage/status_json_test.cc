#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/clock.h"
#include "cli/farpage/status_report.h"

namespace farpage {
namespace {

void expect_json(const boost::json::value& json, const char* expected) {
  EXPECT_EQ(json, boost::json::parse(expected)) << boost::json::serialize(json);
}

TEST(StatusJson, EveryFigureHasItsName) {
  StatusReply status = {"tcp", "a path", 1,  2,  3 * kSecond, kSecond / 2, 5,  6,  7,
                        8,     9,        10, 11, 12,          13,          14, 15, 16};
  status.budget = {20, 21, 22};
  status.pushes = {30, 31, 32, 33, 34, 35};
  status.scrubs = {40, 41, 42, 43};
  status.verdicts = {50, 51, 52, 53, 54, 55, 56, 57, 58};
  status.puts_in_place = 60;
  status.sources = 61;
  boost::json::object json = status_json({status});
  json.erase("version");
  json.erase("hardware");
  expect_json(json, R"({
    "backend": "tcp", "path": "a path", "configuration": {"page_bytes": 5, "slots": 6},
    "incarnation": "0000000000000002", "epoch": 1, "uptime_s": 3.0, "cpu_s": 0.5, "page_bytes": 5,
    "slots": 6, "slots_live": 7, "slots_free": 8, "slots_cooling": 9, "clients": 10, "puts": 11,
    "put_bytes": 12, "puts_refused": 13, "puts_in_place": 60, "sources": 61, "removes": 14, "evictions": 15, "renewals": 16,
    "client_budget": {"bytes": 20, "granted_bytes": 21, "refused": 22},
    "pushes": {"lanes": 30, "pages": 31, "bytes": 32, "missed": 33, "late": 34, "refused": 35},
    "scrubs": {"passes": 40, "bytes": 41, "dropped": 42, "entries": 43},
    "verdicts": {"fetches": 50, "ready": 51, "ready_bytes": 52, "recompute_by_reason": {
      "miss": 53, "stale": 54, "corrupt": 55, "stalled": 56, "unreachable": 57, "slower": 58}},
    "traffic": null, "ports": [], "fleet": null, "tenants": null, "namespaces": []})");
}

TEST(StatusJson, ListsHoldTheFiguresOfEach) {
  StatusReply status;
  status.sees_traffic = true;
  status.traffic = {{"a", 1, 2, 3, 4, 5, 6}};
  status.ports = {{"b", 0, 1, 2, 3, {4, {}, 6, 7}}};
  status.fleet = {0xA, 1, {{0xB, true}}, 2, 3, 4, 5, 6, 7, 8, 9};
  status.tenants = {{"c", 1, 2, 3, 4, 5, 6, 7, 8, {9, 10, 11}}};
  status.name_spaces = {{"0102", "model=a=b\nsalt=\n", 3, 4}, {"0a0b", "", 1, 2}};
  boost::json::object json = status_json({status});
  expect_json(json["traffic"], R"([{"path": "a", "connections": 1, "reads": 2, "read_bytes": 3,
    "writes": 4, "write_bytes": 5, "refused": 6}])");
  expect_json(json["ports"], R"([{"port": "b", "link_bits_per_s": null, "connections": 1,
    "refused": 2, "immediates": 3, "sent_bytes": 4, "received_bytes": null, "sent_packets": 6,
    "received_packets": 7}])");
  expect_json(json["fleet"], R"({"node": "000000000000000a",
    "others": [{"node": "000000000000000b", "reached": true}], "replicas": 1, "replicated": 2,
    "applied": 3, "filled": 4, "filled_bytes": 5, "to_fill": 6, "repaired": 7, "dropped": 8,
    "puts_without_replica": 9})");
  expect_json(json["tenants"], R"([{"name": "c", "quota_bytes": 1, "held_bytes": 2, "clients": 3,
    "puts": 4, "put_bytes": 5, "puts_refused": 6, "removes": 7, "evictions": 8,
    "client_budget": {"bytes": 9, "granted_bytes": 10, "refused": 11}}])");
  expect_json(json["namespaces"], R"([{"namespace": "0102", "facts": {"model": "a=b", "salt": ""},
    "pages": 3, "held_bytes": 4}, {"namespace": "0a0b", "facts": {}, "pages": 1,
    "held_bytes": 2}])");
}

TEST(StatusJson, RatesOfAPortAreOfWhatItCounts) {
  StatusReply before;
  before.uptime_ns = 10 * kSecond;
  before.ports = {{.port = "a", .counts = {100, {}, 10, 0}}};
  StatusReply now = before;
  now.uptime_ns = 12 * kSecond;
  now.ports = {{.port = "a", .counts = {300, {}, 12, 0}}, {.port = "new"}};
  boost::json::object json = status_json({now, &before});
  expect_json(json["per_second"].at("ports"), R"([{"port": "a", "sent_bytes": 100.0,
    "received_bytes": null, "sent_packets": 1.0, "received_packets": 0.0}])");
}

}  // namespace
}  // namespace farpage
