#include <gtest/gtest.h>

#include "control/codec.h"
#include "control/status/status_table.h"

namespace farpage {
namespace {

StatusReply round_trip(const StatusReply& sent) {
  auto decoded = decode_reply(encode(NumberedReply{42, sent}));
  EXPECT_TRUE(decoded.has_value());
  return std::get<StatusReply>(std::move(decoded->reply));
}

// Each another number, from `first` on.
template <typename Record>
void number(Record& record, uint64_t first) {
  for (const Figure<Record>& figure : figures(record)) record.*figure.member = first++;
}

template <typename Record>
void expect_same(const Record& got, const Record& sent) {
  for (const Figure<Record>& figure : figures(sent)) {
    EXPECT_EQ(got.*figure.member, sent.*figure.member) << figure.name;
  }
}

TEST(CodecStatus, CarriesEveryFigure) {
  StatusReply sent = {.backend = "shm", .path = "a path", .incarnation = UINT64_MAX};
  sent.sees_traffic = true;
  number(sent, 1);
  number(sent.verdicts, 100);
  number(sent.pushes, 200);
  number(sent.scrubs, 300);
  number(sent.budget, 400);
  const StatusReply got = round_trip(sent);
  EXPECT_EQ(got.backend, "shm");
  EXPECT_EQ(got.path, "a path");
  EXPECT_EQ(got.incarnation, UINT64_MAX);
  EXPECT_TRUE(got.sees_traffic);
  expect_same(got, sent);
  expect_same(got.verdicts, sent.verdicts);
  expect_same(got.pushes, sent.pushes);
  expect_same(got.scrubs, sent.scrubs);
  expect_same(got.budget, sent.budget);
  EXPECT_EQ(got.fleet.node, 0u);
}

TEST(CodecStatus, CarriesPathsAndTenants) {
  StatusReply sent;
  sent.traffic = {{"one"}, {"two", UINT64_MAX}};
  sent.tenants = {{"a"}, {"b"}};
  number(sent.traffic[0], 1);
  number(sent.tenants[0], 100);
  number(sent.tenants[0].budget, 200);
  const StatusReply got = round_trip(sent);
  ASSERT_EQ(got.traffic.size(), 2u);
  EXPECT_EQ(got.traffic[0].path, "one");
  expect_same(got.traffic[0], sent.traffic[0]);
  EXPECT_EQ(got.traffic[1].path, "two");
  EXPECT_EQ(got.traffic[1].connections, UINT64_MAX);
  ASSERT_EQ(got.tenants.size(), 2u);
  EXPECT_EQ(got.tenants[0].name, "a");
  expect_same(got.tenants[0], sent.tenants[0]);
  expect_same(got.tenants[0].budget, sent.tenants[0].budget);
  EXPECT_EQ(got.tenants[1].name, "b");
}

TEST(CodecStatus, PortsCountNothingOrDoNotCount) {
  StatusReply sent;
  sent.ports = {{"one"}, {.port = "two", .counts = {0, {}, {}, {}}}};
  number(sent.ports[0], 1);
  number(sent.ports[0].counts, 100);
  const StatusReply got = round_trip(sent);
  ASSERT_EQ(got.ports.size(), 2u);
  EXPECT_EQ(got.ports[0].port, "one");
  expect_same(got.ports[0], sent.ports[0]);
  expect_same(got.ports[0].counts, sent.ports[0].counts);
  EXPECT_EQ(got.ports[1].counts.sent_bytes, 0u) << "counted, and none";
  EXPECT_EQ(got.ports[1].counts.received_bytes, std::nullopt) << "not counted";
}

TEST(CodecStatus, CarriesTheFleet) {
  StatusReply sent;
  sent.fleet = {.node = 1, .others = {{50, true}, {51, false}}};
  number(sent.fleet, 100);
  const FleetStatus got = round_trip(sent).fleet;
  EXPECT_EQ(got.node, 1u);
  expect_same(got, sent.fleet);
  ASSERT_EQ(got.others.size(), 2u);
  EXPECT_EQ(got.others[0].node, 50u);
  EXPECT_TRUE(got.others[0].reached);
  EXPECT_EQ(got.others[1].node, 51u);
  EXPECT_FALSE(got.others[1].reached);
}

TEST(CodecStatus, FiguresKeepTheirNumbersOnTheWire) {
  // Reply 1, a status (8): puts (13), verdicts (19) with miss (4), pushes (24) with refused (6).
  const std::string body = "\x08\x01\x42\x0C\x68\x05\x9A\x01\x02\x20\x07\xC2\x01\x02\x30\x09";
  const auto decoded = decode_reply(Frame{body, {}});
  ASSERT_TRUE(decoded.has_value());
  const auto& status = std::get<StatusReply>(decoded->reply);
  EXPECT_EQ(status.puts, 5u);
  EXPECT_EQ(status.verdicts.miss, 7u);
  EXPECT_EQ(status.pushes.refused, 9u);
}

}  // namespace
}  // namespace farpage
