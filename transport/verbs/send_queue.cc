#include "transport/verbs/send_queue.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace farpage::verbs {

SendQueue::SendQueue(std::unique_ptr<Connection> connection, std::shared_ptr<PathCounters> counters)
    : connection_(std::move(connection)),
      counters_(std::move(counters)),
      slices_(std::min<size_t>(kMostSlices, connection_->send_slices)),
      depth_(connection_->send_depth),
      ring_(std::bit_ceil(depth_)) {}

SendQueue::~SendQueue() = default;

size_t SendQueue::room() const {
  if (broken()) return 0;
  return std::min(kChain - chained_, depth_ - (posted_ - ended_) - chained_);
}

void SendQueue::look(uint64_t now_ns) {
  if (idle()) {
    silent_since_ns_ = kNever;
  } else if (ended_ != ended_at_look_ || silent_since_ns_ == kNever) {
    silent_since_ns_ = now_ns;
  }
  ended_at_look_ = ended_;
}

void SendQueue::add(const Work& work, const ibv_send_wr& wanted, std::span<const ibv_sge> slices) {
  FARPAGE_CHECK(room() > 0 && slices.size() <= slices_);
  const uint64_t number = posted_ + chained_;
  uint64_t bytes = 0;
  for (const ibv_sge& slice : slices) bytes += slice.length;
  std::copy(slices.begin(), slices.end(), chain_slices_[chained_].begin());
  ibv_send_wr& request = chain_[chained_] = wanted;
  request.wr_id = number;
  request.sg_list = chain_slices_[chained_].data();
  request.num_sge = static_cast<int>(slices.size());
  request.next = nullptr;
  unsignalled_bytes_ += bytes;
  if (number - last_signalled_ >= kSignalEvery || unsignalled_bytes_ >= kSignalEveryBytes) {
    request.send_flags |= IBV_SEND_SIGNALED;
    last_signalled_ = number;
    unsignalled_bytes_ = 0;
  }
  if (chained_ > 0) chain_[chained_ - 1].next = &chain_[chained_];
  posted(number) = {work, bytes, request.opcode == IBV_WR_RDMA_READ};
  posted_bytes_ += bytes;
  ++chained_;
}

void SendQueue::ring() {
  if (chained_ == 0) return;
  chain_[chained_ - 1].send_flags |= IBV_SEND_SIGNALED;
  const uint64_t first = posted_;
  posted_ += chained_;
  last_signalled_ = posted_ - 1;
  unsignalled_bytes_ = 0;
  chained_ = 0;
  ibv_send_wr* refused = nullptr;
  if (::ibv_post_send(connection_->id->qp, chain_.data(), &refused) == 0) return;
  // None is named where all of them were taken before something failed.
  refused_from_ =
      refused == nullptr ? posted_ : first + static_cast<uint64_t>(refused - chain_.data());
  break_off();
}

void SendQueue::break_off() {
  if (broken()) return;
  broken_ns_ = boottime_clock().now_ns();
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  ::ibv_modify_qp(connection_->id->qp, &attributes, IBV_QP_STATE);
}

}  // namespace farpage::verbs
