#include "control/status/status_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "control/struct_members.h"

namespace farpage {
namespace {

// `others_bytes`: of the members that are no figures.
template <typename Record>
void expect_whole(const Record& record, size_t others_bytes = 0) {
  std::set<const void*> members;
  std::set<std::string> names;
  for (const Figure<Record>& figure : figures(record)) {
    members.insert(&(record.*figure.member));
    names.insert(figure.name);
  }
  each_member(record, [&](auto index, const auto& member) {
    for (const Figure<Record>& figure : figures(record)) {
      const void* at = &(record.*figure.member);
      if (at != &member) continue;
      EXPECT_EQ(figure.name, (kMemberName<Record, index>));
    }
  });
  EXPECT_EQ(members.size(), (sizeof(Record) - others_bytes) / sizeof(FigureNumber<Record>));
  EXPECT_EQ(names.size(), members.size());
  EXPECT_EQ(figures(record).size(), members.size());
}

constexpr size_t kNumber = sizeof(uint64_t);

TEST(StatusTable, EveryNumberIsAFigureOnce) {
  expect_whole(VerdictCounts());
  expect_whole(PushCounts());
  expect_whole(ScrubCounts());
  expect_whole(ClientBudgetStatus());
  expect_whole(PortCounts());
  expect_whole(PathTraffic(), sizeof(std::string));
  expect_whole(PortTraffic(), sizeof(std::string) + sizeof(PortCounts));
  expect_whole(TenantStatus(), sizeof(std::string) + sizeof(ClientBudgetStatus));
  expect_whole(NameSpaceStatus(), 2 * sizeof(std::string));
  expect_whole(FleetStatus(), kNumber + sizeof(decltype(FleetStatus::others)));
  const StatusReply reply;
  const size_t parts_bytes = sizeof(decltype(reply.verdicts)) + sizeof(decltype(reply.fleet)) +
                             sizeof(decltype(reply.pushes)) + sizeof(decltype(reply.scrubs)) +
                             sizeof(decltype(reply.budget));
  const size_t lists_bytes = sizeof(decltype(reply.traffic)) + sizeof(decltype(reply.ports)) +
                             sizeof(decltype(reply.tenants)) + sizeof(decltype(reply.name_spaces));
  const size_t sees_traffic_bytes = alignof(StatusReply);
  expect_whole(reply,
               2 * sizeof(std::string) + kNumber + sees_traffic_bytes + parts_bytes + lists_bytes);
}

TEST(StatusTable, EachFigureIsAddedToItsOwn) {
  VerdictCounts sum = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  add_up(sum, {10, 20, 30, 40, 50, 60, 70, 80, 90});
  EXPECT_EQ(sum.fetches, 11u);
  EXPECT_EQ(sum.ready, 22u);
  EXPECT_EQ(sum.ready_bytes, 33u);
  EXPECT_EQ(sum.miss, 44u);
  EXPECT_EQ(sum.stale, 55u);
  EXPECT_EQ(sum.corrupt, 66u);
  EXPECT_EQ(sum.stalled, 77u);
  EXPECT_EQ(sum.unreachable, 88u);
  EXPECT_EQ(sum.slower, 99u);
}

TEST(StatusTable, SumStopsAtTheLargestNumber) {
  VerdictCounts sum = {.ready = UINT64_MAX - 5, .miss = 1};
  add_up(sum, {.ready = 6, .miss = UINT64_MAX});
  EXPECT_EQ(sum.ready, UINT64_MAX);
  EXPECT_EQ(sum.miss, UINT64_MAX);
  add_up(sum, {.ready = UINT64_MAX});
  EXPECT_EQ(sum.ready, UINT64_MAX);
}

TEST(StatusTable, TenantsMakeOneProcess) {
  StatusReply sum;
  sum.epoch = 5;
  sum.uptime_ns = 6;
  sum.cpu_ns = 7;
  sum.page_bytes = 8;
  sum.slots = 9;
  StatusReply one = sum;
  one.epoch = 4;
  one.cpu_ns = 1;
  add_up(sum, one);
  EXPECT_EQ(sum.epoch, 5u);
  EXPECT_EQ(sum.uptime_ns, 6u);
  EXPECT_EQ(sum.cpu_ns, 7u);
  EXPECT_EQ(sum.page_bytes, 8u);
  EXPECT_EQ(sum.slots, 18u);
  one.epoch = 6;
  add_up(sum, one);
  EXPECT_EQ(sum.epoch, 6u);
  FleetStatus fleet = {.replicas = 3, .filled = 1};
  add_up(fleet, {.replicas = 2, .filled = 1});
  EXPECT_EQ(fleet.replicas, 2u);
  EXPECT_EQ(fleet.filled, 2u);
}

TEST(StatusTable, NamesSayTheUnit) {
  EXPECT_EQ(unit_of("put_bytes"), FigureUnit::kBytes);
  EXPECT_EQ(unit_of("bytes"), FigureUnit::kBytes);
  EXPECT_EQ(unit_of("uptime_ns"), FigureUnit::kNs);
  EXPECT_EQ(unit_of("link_bits_per_s"), FigureUnit::kBitsPerS);
  EXPECT_EQ(unit_of("puts"), FigureUnit::kCount);
}

TEST(StatusTable, MetricsNameTheirLabel) {
  const FigureMetric labelled = metric_of("pages_total{reason=miss}");
  EXPECT_EQ(labelled.family, "pages_total");
  EXPECT_EQ(labelled.kind, MetricKind::kCounter);
  EXPECT_EQ(labelled.label.name, "reason");
  EXPECT_EQ(labelled.label.value, "miss");
  const FigureMetric plain = metric_of("pages");
  EXPECT_EQ(plain.family, "pages");
  EXPECT_EQ(plain.kind, MetricKind::kGauge);
  EXPECT_TRUE(plain.label.name.empty());
}

}  // namespace
}  // namespace farpage
