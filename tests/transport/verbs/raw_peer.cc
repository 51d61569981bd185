#include "tests/transport/verbs/raw_peer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "net/stream/stream.h"

namespace farpage::verbs {
namespace {

constexpr int kResolveMs = 2'000;
constexpr uint64_t kPatienceNs = 10 * kSecond;

}  // namespace

RawPeer::RawPeer(const std::string& device)
    : devices_(Devices::open({device}).value()),
      completions_(CompletionQueue::make((*devices_)[0].context, 16).value()),
      registered_(::ibv_reg_mr((*devices_)[0].domain, memory_.data(), memory_.size(),
                               int{IBV_ACCESS_LOCAL_WRITE})) {
  EXPECT_NE(registered_, nullptr);
}

RawPeer::~RawPeer() {
  if (id_ != nullptr && id_->qp != nullptr) ::rdma_destroy_qp(id_);
  if (id_ != nullptr) ::rdma_destroy_id(id_);
  ::ibv_dereg_mr(registered_);
}

bool RawPeer::connect(const Endpoint& to, const ConnectWire& introduction) {
  return connect(to, {reinterpret_cast<const char*>(&introduction), sizeof introduction});
}

bool RawPeer::connect(const Endpoint& to, std::string_view private_data) {
  const Device& device = (*devices_)[0];
  EXPECT_EQ(id_, nullptr) << "it connects once";
  // Without a channel for events each call blocks until its event has come.
  EXPECT_EQ(::rdma_create_id(nullptr, &id_, nullptr, RDMA_PS_TCP), 0);
  EXPECT_EQ(::rdma_resolve_addr(id_, const_cast<sockaddr*>(device.address.address()),
                                const_cast<sockaddr*>(to.address()), kResolveMs),
            0);
  EXPECT_EQ(::rdma_resolve_route(id_, kResolveMs), 0);
  ibv_qp_init_attr attributes = {};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = attributes.recv_cq = completions_.get();
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 4;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  EXPECT_EQ(::rdma_create_qp(id_, device.domain, &attributes), 0);
  rdma_conn_param parameters = {};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<uint8_t>(private_data.size());
  parameters.initiator_depth = 16;
  parameters.retry_count = kRetries;
  return ::rdma_connect(id_, &parameters) == 0;
}

ibv_wc_status RawPeer::request(ibv_wr_opcode opcode, uint64_t address, uint32_t key,
                               uint64_t bytes) {
  ibv_sge slice = {reinterpret_cast<uint64_t>(memory_.data()), static_cast<uint32_t>(bytes),
                   registered_->lkey};
  ibv_send_wr request = {};
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &slice;
  request.num_sge = bytes > 0 ? 1 : 0;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic = {address, 1, 0, key};
  } else {
    request.wr.rdma = {address, key};
  }
  ibv_send_wr* refused = nullptr;
  EXPECT_EQ(::ibv_post_send(id_->qp, &request, &refused), 0);
  const uint64_t deadline_ns = boottime_clock().now_ns() + kPatienceNs;
  ibv_wc ended = {};
  completions_.arm();
  while (::ibv_poll_cq(completions_.get(), 1, &ended) == 0) {
    if (boottime_clock().now_ns() >= deadline_ns) return IBV_WC_GENERAL_ERR;
    wait_for(completions_.fd(), POLLIN, deadline_ns);
    completions_.acknowledge();
    completions_.arm();
  }
  return ended.status;
}

bool RawPeer::untouched() const {
  return std::all_of(memory_.begin(), memory_.end(), [](std::byte b) { return b == kUntouched; });
}

}  // namespace farpage::verbs
