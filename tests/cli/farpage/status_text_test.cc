#include <gtest/gtest.h>

#include "base/clock.h"
#include "cli/farpage/status_report.h"

namespace farpage {
namespace {

StatusReply status_at(uint64_t uptime_ns) {
  StatusReply status = {"tcp", "one rail", 3, 4, uptime_ns};
  status.page_bytes = 1024;
  status.slots = 10;
  status.slots_live = 4;
  status.sees_traffic = true;
  return status;
}

void expect_row(const std::string& text, const std::string& row) {
  EXPECT_NE(("\n" + text).find("\n" + row + "\n"), std::string::npos) << row << " in\n" << text;
}

TEST(StatusText, TrafficIsShownByPathWithRates) {
  StatusReply before = status_at(10 * kSecond);
  before.traffic = {{"rail b", 1, 100, 1024, 10, 0, 0}};
  StatusReply now = status_at(12 * kSecond);
  now.traffic = {{"rail a", 1, 8, 4096, 2, 2048, 5}, {"rail b", 2, 300, 3072, 10, 0, 0}};
  const std::string text = status_text({now, &before});
  expect_row(text, "traffic                  2 paths");
  expect_row(text, "  rail a                 1 connections, 5 refused");
  expect_row(text, "    read                 8, 4 KiB, 4.0/s, 2 KiB/s");
  expect_row(text, "    written              2, 2 KiB, 1.0/s, 1 KiB/s");
  expect_row(text, "  rail b                 2 connections, 0 refused");
  expect_row(text, "    read                 300, 3 KiB, 100.0/s, 1 KiB/s");
  expect_row(text, "    written              10, 0 B, 0.0/s, 0 B/s");
}

TEST(StatusText, PortsAreShownWithRates) {
  StatusReply before = status_at(10 * kSecond);
  before.sees_traffic = false;
  before.ports = {{.port = "a", .immediates = 2, .counts = {1024, 0, 10, 20}}};
  StatusReply now = before;
  now.uptime_ns = 12 * kSecond;
  now.ports[0] = {"a", 100'000'000'000, 3, 4, 6, {3072, 2048, 20, 20}};
  now.ports.push_back({.port = "b", .counts = {{}, {}, 5, {}}});
  const std::string text = status_text({now, &before});
  expect_row(text,
             "  a                      100 Gbit/s, 3 connections, 4 refused, 6 immediates, 2.0/s");
  expect_row(text, "    whole port: sent     3 KiB, 1 KiB/s, 20 packets, 5.0/s");
  expect_row(text, "    received             2 KiB, 1 KiB/s, 20 packets, 0.0/s");
  expect_row(text,
             "  b                      a link of unknown rate, 0 connections, 0 refused, "
             "0 immediates, 0.0/s");
  expect_row(text, "    whole port: sent     5 packets, 0.0/s");
  expect_row(text, "    received             the device does not count it");
}

TEST(StatusText, TenantsAreShownWhereThereAreSome) {
  StatusReply before = status_at(10 * kSecond);
  EXPECT_EQ(status_text({before}).find("tenant"), std::string::npos);
  before.tenants = {{"b", 8192, 2048, 1, 10, 1024, 0, 0, 4}};
  StatusReply now = status_at(12 * kSecond);
  now.tenants = {{"a", 4096, 1024, 2, 3, 2048, 4, 5, 6, {8192, 6144, 7}},
                 {"b", 8192, 4096, 1, 20, 3072, 0, 0, 8}};
  const std::string text = status_text({now, &before});
  expect_row(text, "tenant a                 1 KiB of 4 KiB (25.0%), 2 clients");
  expect_row(text, "  puts                   3 (2 KiB), 4 refused, 1.5/s");
  expect_row(text, "  removes, evictions     5, 6, 3.0/s");
  expect_row(text, "  granted to clients     6 KiB of 8 KiB (75.0%), 7 refused");
  expect_row(text, "tenant b                 4 KiB of 8 KiB (50.0%), 1 clients");
  expect_row(text, "  puts                   20 (3 KiB), 0 refused, 5.0/s");
  expect_row(text, "  removes, evictions     0, 8, 2.0/s");
}

TEST(StatusText, NamespacesAreShownWithTheirFacts) {
  StatusReply now = status_at(kSecond);
  EXPECT_EQ(status_text({now}).find("namespace"), std::string::npos);
  const std::string long_value(100, 'x');
  now.name_spaces = {{"0102", "groups=" + long_value + "\nmodel=Q\x1b\nsalt=\n", 3, 3072},
                     {"0a0b", "", 1, 1024}};
  const std::string text = status_text({now});
  expect_row(text, "namespace                0102: 3 pages, 3 KiB");
  expect_row(text, "                         model=Q?, groups=" + std::string(60, 'x') + "…");
  expect_row(text, "namespace                0a0b: 1 pages, 1 KiB");
  expect_row(text, "                         no client has told its facts");
}

// Two snapshots of a model differ at their ends.
TEST(StatusText, OfALongPathTheEndIsShown) {
  StatusReply now = status_at(kSecond);
  const std::string end = "/" + std::string(58, 'x');
  now.name_spaces = {{"01", "model=/models/ab" + end + "\nrevision=/b", 1, 1},
                     {"02", "model=/models/ü" + end, 1, 1}};
  const std::string text = status_text({now});
  expect_row(text, std::string(25, ' ') + "model=…b" + end + ", revision=/b");
  expect_row(text, std::string(25, ' ') + "model=…" + end);
}

TEST(StatusText, FactsOfAHostileClientAreCutAndPlain) {
  StatusReply now = status_at(kSecond);
  const std::string name(100, 'n');
  now.name_spaces = {{"01", "a=" + std::string(59, 'x') + "üy\n" + name + "=1\n", 1, 1},
                     {"02", "a=\u009B31m\u202E\u2066\u00A0é", 1, 1},
                     {"03", "", 1, 1}};
  for (int i = 0; i < 100; ++i) now.name_spaces[2].facts += "f" + std::to_string(i) + "=value\n";
  const std::string text = status_text({now});
  expect_row(text, std::string(25, ' ') + "a=" + std::string(59, 'x') + "…, " +
                       std::string(60, 'n') + "…=1");
  expect_row(text, std::string(25, ' ') + "a=?31m??\u00A0é");
  const size_t third = text.find("namespace                03");
  const size_t row = text.find('\n', third) + 1;
  EXPECT_EQ(text.find('\n', row) - row, 25 + 400 + std::string("…").size());
}

TEST(StatusText, FleetIsShownWhereThereIsOne) {
  StatusReply now = status_at(kSecond);
  EXPECT_EQ(status_text({now}).find("fleet"), std::string::npos);
  now.fleet = {0xA, 2, {{0xB, true}, {0xC, false}}, 3, 4, 5, 6144, 7, 8, 9, 10};
  const std::string text = status_text({now});
  expect_row(text,
             "fleet                    node 000000000000000a, 2 replicas, 1 of 2 others reached");
  expect_row(text, "  not reached            000000000000000c");
  expect_row(text, "  replicated             3 pages, 4 taken over");
  expect_row(text, "  filled                 5 pages, 6 KiB, 7 left");
  expect_row(text, "  corrupt                9 pages dropped, 8 repaired");
  expect_row(text, "  without a replica      10 puts refused");
}

TEST(StatusText, PushesAreShownWithRates) {
  StatusReply before = status_at(10 * kSecond);
  before.pushes = {1, 10, 1024, 0, 0, 0};
  StatusReply now = status_at(12 * kSecond);
  now.pushes = {2, 30, 5120, 3, 4, 5};
  const std::string text = status_text({now, &before});
  expect_row(text, "pushes                   30 pages (5 KiB), 2 lanes, 10.0/s, 2 KiB/s");
  expect_row(text, "  left out               3 not there, 4 too late; 5 refused");
}

TEST(StatusText, WhatClientsMakeTheNodeHoldIsShown) {
  StatusReply now = status_at(kSecond);
  now.budget = {4096, 1024, 5};
  expect_row(status_text({now}), "granted to clients       1 KiB of 4 KiB (25.0%), 5 refused");
}

TEST(StatusText, WhatWasScrubbedIsShown) {
  StatusReply now = status_at(kSecond);
  now.scrubs = {3, 2048, 4, 5};
  expect_row(status_text({now}),
             "scrubbed                 3 passes, 2 KiB; 4 pages dropped, 5 index entries mended");
}

TEST(StatusText, SharesAreOfWhatThereIs) {
  StatusReply now = status_at(kSecond);
  now.verdicts = {
      .fetches = 2, .ready = 6, .ready_bytes = 6144, .miss = 1, .corrupt = 1, .slower = 2};
  const std::string text = status_text({now});
  expect_row(text, "slots                    10 of 1 KiB, 10 KiB in all");
  expect_row(text, "  live                   4 (40.0%), 4 KiB");
  expect_row(text, "verdicts                 10 pages in 2 fetches, as the clients tell");
  expect_row(text, "  ready                  6 (60.00%), 6 KiB");
  expect_row(text, "  recompute: miss        1 (10.00%)");
  expect_row(text, "  recompute: stale       0 (0.00%)");
  expect_row(text, "  recompute: slower      2 (20.00%)");
  EXPECT_EQ(text.find("/s"), std::string::npos);
}

TEST(StatusReport, RatesNeedTwoLooksAtOneRun) {
  const StatusReply now = status_at(12 * kSecond);
  StatusReply before = status_at(10 * kSecond);
  EXPECT_EQ(StatusReport({now}).seconds(), 0);
  EXPECT_EQ(StatusReport({now, &before}).seconds(), 2);
  EXPECT_EQ((StatusReport{now, &before}.per_second(1, 5)), 2);
  EXPECT_EQ((StatusReport{now, &before}.per_second(5, 1)), 0) << "a count that went back";
  before.incarnation = 99;
  EXPECT_EQ(StatusReport({now, &before}).seconds(), 0);
  EXPECT_EQ(StatusReport({now, &now}).seconds(), 0);
}

TEST(StatusText, NodesWordsMoveNoCursor) {
  StatusReply now = status_at(kSecond);
  now.path = "a\x1b[2Jb\nc";
  now.traffic = {{"\x1b]0;title\x07", 0, 0, 0, 0, 0, 0}};
  now.ports = {{.port = "\x1b[5m"}};
  const std::string text = status_text({now});
  expect_row(text, "path                     tcp: a?[2Jb?c");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace farpage
