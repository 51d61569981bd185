#include "transport/verbs/send_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/units.h"

namespace farpage::verbs {
namespace {

// The device's completions: the tests write them.
struct MadeUpDevice {
  ibv_context context = {};
  ibv_comp_channel channel = {};
  ibv_cq completions = {};
  ibv_qp queue_pair = {};
  rdma_cm_id id = {};
  std::vector<ibv_wc> told;
};
MadeUpDevice* device = nullptr;

int take_all(ibv_qp*, ibv_send_wr*, ibv_send_wr**) {
  return 0;
}

int tell(ibv_cq*, int most, ibv_wc* completions) {
  const size_t count = std::min(device->told.size(), static_cast<size_t>(most));
  std::copy_n(device->told.begin(), count, completions);
  device->told.erase(device->told.begin(), device->told.begin() + static_cast<ptrdiff_t>(count));
  return static_cast<int>(count);
}

}  // namespace
}  // namespace farpage::verbs

// In place of libibverbs' and librdmacm's.
extern "C" {
ibv_comp_channel* ibv_create_comp_channel(ibv_context*) {
  farpage::verbs::device->channel.fd = -1;
  return &farpage::verbs::device->channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel*) {
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int, void*, ibv_comp_channel*, int) {
  farpage::verbs::device->completions.context = context;
  return &farpage::verbs::device->completions;
}
int ibv_destroy_cq(ibv_cq*) {
  return 0;
}
int ibv_modify_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int) {
  queue_pair->state = attributes->qp_state;
  return 0;
}
int rdma_disconnect(rdma_cm_id*) {
  return 0;
}
void rdma_destroy_qp(rdma_cm_id* id) {
  id->qp = nullptr;
}
int rdma_destroy_id(rdma_cm_id*) {
  return 0;
}
}

namespace farpage::verbs {
namespace {

class VerbsSendQueue : public testing::Test {
 protected:
  VerbsSendQueue() {
    device = &device_;
    device_.context.ops.post_send = take_all;
    device_.context.ops.poll_cq = tell;
    device_.queue_pair.context = &device_.context;
    device_.id.qp = &device_.queue_pair;
    auto connection = std::make_unique<Connection>();
    connection->completions = CompletionQueue::make(&device_.context, 16).value();
    connection->id.reset(&device_.id);
    connection->send_depth = 16;
    connection->send_slices = 2;
    queue_ = std::make_unique<SendQueue>(std::move(connection), std::make_shared<PathCounters>());
  }

  void add(ibv_wr_opcode opcode, uint32_t bytes) {
    ibv_send_wr request = {};
    request.opcode = opcode;
    const ibv_sge slice = {0, bytes, 0};
    queue_->add({}, request, {&slice, 1});
  }
  void told(uint64_t number, ibv_wc_status status) {
    ibv_wc completion = {};
    completion.wr_id = number;
    completion.status = status;
    device_.told.push_back(completion);
  }
  std::vector<ibv_wc_status> poll() {
    std::vector<ibv_wc_status> ended;
    queue_->poll([&](const SendQueue::Work&, ibv_wc_status status) { ended.push_back(status); });
    return ended;
  }

  MadeUpDevice device_;
  std::unique_ptr<SendQueue> queue_;
};

TEST_F(VerbsSendQueue, CarriesWhatWentWell) {
  add(IBV_WR_RDMA_READ, 64 * kKiB);
  add(IBV_WR_RDMA_WRITE, 1 * kKiB);
  queue_->ring();
  EXPECT_EQ(queue_->bytes_under_way(), 65 * kKiB);
  EXPECT_EQ(queue_->bytes_carried(), 0u);
  told(1, IBV_WC_SUCCESS);
  EXPECT_EQ(poll(), (std::vector{IBV_WC_SUCCESS, IBV_WC_SUCCESS}));
  EXPECT_EQ(queue_->bytes_under_way(), 0u);
  EXPECT_EQ(queue_->bytes_carried(), 65 * kKiB);
}

// It would clear the name of a path that carries nothing large.
TEST_F(VerbsSendQueue, BytesThatFailedAreNotCarried) {
  for (int i = 0; i < 6; ++i) add(IBV_WR_RDMA_READ, 256 * kKiB);
  queue_->ring();
  told(0, IBV_WC_SUCCESS);
  told(1, IBV_WC_RETRY_EXC_ERR);
  for (uint64_t number = 2; number < 6; ++number) told(number, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(poll(), (std::vector{IBV_WC_SUCCESS, IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR,
                                 IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR}));
  EXPECT_TRUE(queue_->drained());
  EXPECT_EQ(device_.queue_pair.state, IBV_QPS_ERR);
  EXPECT_EQ(queue_->bytes_under_way(), 0u);
  EXPECT_EQ(queue_->bytes_carried(), 256 * kKiB);
}

TEST_F(VerbsSendQueue, WhatIsAbandonedIsNotCarried) {
  add(IBV_WR_RDMA_READ, 256 * kKiB);
  queue_->ring();
  std::vector<ibv_wc_status> ended;
  queue_->abandon([&](const SendQueue::Work&, ibv_wc_status status) { ended.push_back(status); });
  EXPECT_EQ(ended, std::vector{IBV_WC_WR_FLUSH_ERR});
  EXPECT_EQ(queue_->bytes_under_way(), 0u);
  EXPECT_EQ(queue_->bytes_carried(), 0u);
}

}  // namespace
}  // namespace farpage::verbs
