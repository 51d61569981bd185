// How many reads a queue pair has under way: as many as both devices allow, and no more than ours.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "net/security/greeting.h"
#include "transport/verbs/listener.h"

namespace farpage::verbs {
namespace {

constexpr uint64_t kPatienceNs = 20 * kSecond;
constexpr uint64_t kReadBytes = 1024;
constexpr uint64_t kReads = 64;  // at once, far more than are allowed on the wire

// Soft-RoCE allows 128 of either kind; `most` is what a lesser device would say.
std::shared_ptr<const Devices> device_that_allows(const std::string& name, int most) {
  auto devices = Devices::open({name}).value();
  auto& limits = const_cast<Device&>((*devices)[0]).limits;
  EXPECT_GE(limits.max_qp_rd_atom, kReadsOnTheWire);
  EXPECT_GE(limits.max_qp_init_rd_atom, kReadsOnTheWire);
  limits.max_qp_rd_atom = std::min(limits.max_qp_rd_atom, most);
  limits.max_qp_init_rd_atom = std::min(limits.max_qp_init_rd_atom, most);
  return devices;
}

// Powers of two, to which Soft-RoCE rounds.
struct Limits {
  int at_node;
  int at_client;
  int expected;
};

class VerbsReadsOnTheWire : public testing::TestWithParam<Limits> {};

INSTANTIATE_TEST_SUITE_P(Verbs, VerbsReadsOnTheWire,
                         testing::Values(Limits{1'000, 1'000, kReadsOnTheWire}, Limits{2, 1'000, 2},
                                         Limits{1'000, 4, 4}, Limits{8, 4, 4}, Limits{1, 16, 1}),
                         [](const auto& info) {
                           return "node" + std::to_string(info.param.at_node) + "client" +
                                  std::to_string(info.param.at_client);
                         });

TEST_P(VerbsReadsOnTheWire, TheLowerLimitHoldsAndWorks) {
  const auto node = device_that_allows("rxe2", GetParam().at_node);
  const auto seen = std::make_shared<PortEvents>();
  const auto end = TargetEnd::make(node, ChannelPurpose::kRead, seen).value();
  const auto listener = ChannelListener::listen(node, seen).value();
  const ChannelId channel = make_channel_id();
  listener->offer(channel, end);
  std::vector<std::byte> pool(kReads * kReadBytes);
  for (size_t i = 0; i < pool.size(); ++i)
    pool[i] = static_cast<std::byte>(i * 31 + i / kReadBytes);
  ibv_mr* const shared =
      ::ibv_reg_mr((*node)[0].domain, pool.data(), pool.size(), int{IBV_ACCESS_REMOTE_READ});
  ASSERT_NE(shared, nullptr);

  const auto client = device_that_allows("rxe0", GetParam().at_client);
  ConnectWire introduction = {};
  introduction.magic = kMagic;
  introduction.channel = channel;
  bool refused = false;
  const uint64_t deadline_ns = boottime_clock().now_ns() + kPatienceNs;
  auto connection = dial(
                        *client, 0, listener->endpoints()[0], introduction, deadline_ns,
                        [] { return false; }, refused)
                        .value();
  ibv_qp_attr granted = {};
  ibv_qp_init_attr made = {};
  ASSERT_EQ(::ibv_query_qp(connection->id->qp, &granted, IBV_QP_MAX_QP_RD_ATOMIC, &made), 0);
  EXPECT_EQ(int{granted.max_rd_atomic}, GetParam().expected);

  std::vector<std::byte> memory(pool.size());
  ibv_mr* const local =
      ::ibv_reg_mr((*client)[0].domain, memory.data(), memory.size(), int{IBV_ACCESS_LOCAL_WRITE});
  ASSERT_NE(local, nullptr);
  for (uint64_t i = 0; i < kReads; ++i) {
    const uint64_t offset = i * kReadBytes;
    ibv_sge slice = {reinterpret_cast<uint64_t>(memory.data()) + offset, kReadBytes, local->lkey};
    ibv_send_wr read = {};
    read.opcode = IBV_WR_RDMA_READ;
    read.send_flags = IBV_SEND_SIGNALED;
    read.sg_list = &slice;
    read.num_sge = 1;
    read.wr.rdma = {reinterpret_cast<uint64_t>(pool.data()) + offset, shared->rkey};
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(::ibv_post_send(connection->id->qp, &read, &bad), 0) << i;
  }
  uint64_t ended = 0;
  while (ended < kReads && boottime_clock().now_ns() < deadline_ns) {
    ibv_wc completion = {};
    if (::ibv_poll_cq(connection->completions.get(), 1, &completion) == 0) continue;
    ++ended;
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ended;
  }
  EXPECT_EQ(ended, kReads);
  EXPECT_EQ(memory, pool);
  connection.reset();
  end->close();
  ::ibv_dereg_mr(local);
  ::ibv_dereg_mr(shared);
}

}  // namespace
}  // namespace farpage::verbs
