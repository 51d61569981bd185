#include "transport/verbs/target.h"

#include <endian.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "net/stream/stream.h"
#include "transport/verbs/listener.h"

namespace farpage::verbs {
namespace {

constexpr uint32_t kPostAtOnce = 64;
constexpr int kPollBatch = 32;

}  // namespace

TargetEnd::OwnDomains::~OwnDomains() {
  for (ibv_pd* domain : domains) {
    if (domain != nullptr) ::ibv_dealloc_pd(domain);
  }
}

Result<void> TargetEnd::OwnDomains::make() {
  for (size_t i = 0; i < devices->size(); ++i) {
    const Device& device = (*devices)[i];
    domains[i] = ::ibv_alloc_pd(device.context);
    if (domains[i] != nullptr) continue;
    return fail_errno(errno, fmt::format("cannot make a protection domain on {}", device.name));
  }
  return {};
}

Result<std::shared_ptr<TargetEnd>> TargetEnd::make(const std::shared_ptr<const Devices>& devices,
                                                   ChannelPurpose purpose,
                                                   std::shared_ptr<PortEvents> seen) {
  const std::shared_ptr<TargetEnd> end(new TargetEnd(devices, purpose, std::move(seen)));
  if (purpose == ChannelPurpose::kRead) return end;
  end->closing_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!end->closing_.valid()) return fail_errno(errno, "eventfd");
  end->own_ = std::make_shared<OwnDomains>(devices);
  if (auto made = end->own_->make(); !made) return tl::unexpected(made.error());
  for (size_t i = 0; i < devices->size(); ++i) {
    auto queue = CompletionQueue::make((*devices)[i].context, kReceives + 1);
    if (!queue) return tl::unexpected(queue.error());
    end->queues_[i].emplace(std::move(*queue));
  }
  return end;
}

TargetEnd::~TargetEnd() {
  close();
}

bool TargetEnd::accept(CmId& request, size_t device, const ConnectWire& introduction,
                       uint8_t reads_asked) {
  std::lock_guard lock(mutex_);
  const bool stage = purpose_ == ChannelPurpose::kStage;
  if (closed_ || introduction.path != device) return false;
  if (owner_ && (*owner_ != introduction.owner || stage)) return false;
  if (!queues_[device]) {
    auto queue = CompletionQueue::make((*devices_)[device].context, 1);
    if (!queue) return false;
    queues_[device].emplace(std::move(*queue));
  }
  // A path that is dialled anew has been given up by the peer.
  take_connection(device).reset();

  const Device& own = (*devices_)[device];
  ibv_qp_init_attr attributes = {};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = attributes.recv_cq = queues_[device]->get();
  attributes.cap.max_send_wr = 1;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_recv_wr = stage ? kReceives : 1;
  attributes.cap.max_recv_sge = 1;
  ibv_pd* domain = stage ? own_->domains[device] : own.domain;
  if (::rdma_create_qp(request.get(), domain, &attributes) != 0) return false;
  if (stage && !post_receives(request->qp, kReceives)) return false;
  set_ack_timeout(request.get());
  rdma_conn_param parameters = {};
  parameters.responder_resources =
      static_cast<uint8_t>(std::min<int>(reads_asked, own.limits.max_qp_rd_atom));
  parameters.rnr_retry_count = kReceiverNotReadyRetries;
  if (::rdma_accept(request.get(), &parameters) != 0) return false;
  ibv_qp_attr timer = {};
  timer.min_rnr_timer = kMinReceiverNotReadyTimer;
  ::ibv_modify_qp(request->qp, &timer, IBV_QP_MIN_RNR_TIMER);
  owner_ = introduction.owner;
  request->context = this;
  connections_[device] = std::move(request);
  seen_->connections[device].fetch_add(1, std::memory_order_relaxed);
  return true;
}

CmId TargetEnd::take_connection(size_t device) {
  if (connections_[device] != nullptr) {
    seen_->connections[device].fetch_sub(1, std::memory_order_relaxed);
  }
  return std::move(connections_[device]);
}

CmId TargetEnd::release(const rdma_cm_id* id) {
  std::lock_guard lock(mutex_);
  for (size_t device = 0; device < connections_.size(); ++device) {
    if (connections_[device].get() == id) return take_connection(device);
  }
  return nullptr;
}

bool TargetEnd::post_receives(ibv_qp* queue_pair, uint32_t count) {
  std::array<ibv_recv_wr, kPostAtOnce> requests = {};
  while (count > 0) {
    const uint32_t now = std::min(count, kPostAtOnce);
    for (uint32_t i = 0; i < now; ++i) requests[i].next = i + 1 < now ? &requests[i + 1] : nullptr;
    ibv_recv_wr* refused = nullptr;
    if (::ibv_post_recv(queue_pair, requests.data(), &refused) != 0) return false;
    count -= now;
  }
  return true;
}

Result<Region> TargetEnd::allocate_writable(const std::shared_ptr<TargetEnd>& self,
                                            uint64_t bytes) {
  if (own_ == nullptr) return fail(Code::kInvalid, "a read channel's peer writes nothing");
  return make_peer_region(self->own_, std::span(own_->domains).first(devices_->size()), bytes,
                          Access::kRemoteWrite);
}

// Each polled receive is posted anew: a peer that sends on meets an empty receive queue.
void TargetEnd::harvest() {
  std::array<ibv_wc, kPollBatch> ended;
  for (size_t device = 0; device < queues_.size(); ++device) {
    const auto& queue = queues_[device];
    if (!queue) continue;
    int count = 0;
    do {
      const size_t room = std::min(ended.size(), kReceives - arrived_.size());
      count = std::max(0, ::ibv_poll_cq(queue->get(), static_cast<int>(room), ended.data()));
      for (int i = 0; i < count; ++i) {
        const ibv_wc& one = ended[static_cast<size_t>(i)];
        if (one.status != IBV_WC_SUCCESS || (one.wc_flags & IBV_WC_WITH_IMM) == 0) continue;
        arrived_.push(be32toh(one.imm_data));
        seen_->immediates[device].fetch_add(1, std::memory_order_relaxed);
      }
    } while (count == kPollBatch);
  }
}

size_t TargetEnd::poll(std::span<uint32_t> immediates) {
  std::lock_guard lock(mutex_);
  if (purpose_ != ChannelPurpose::kStage || closed_) return 0;
  harvest();
  uint32_t count = 0;
  while (count < immediates.size() && !arrived_.empty()) immediates[count++] = arrived_.pop();
  // Where the connection has gone meanwhile, no receive is needed.
  for (const CmId& connection : connections_) {
    if (connection != nullptr) post_receives(connection->qp, count);
  }
  return count;
}

void TargetEnd::wait(uint64_t deadline_ns) {
  std::array<pollfd, kMaxDevices + 1> watched = {};
  nfds_t count = 0;
  if (purpose_ == ChannelPurpose::kStage) {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    for (auto& queue : queues_) {
      if (!queue) continue;
      queue->acknowledge();
      queue->arm();
      watched[count++] = {queue->fd(), POLLIN, 0};
    }
    harvest();  // what came before they were armed
    if (!arrived_.empty()) return;
    watched[count++] = {closing_.get(), POLLIN, 0};
  }
  wait_for_any(std::span(watched).first(count), deadline_ns);
}

void TargetEnd::close() {
  std::array<CmId, kMaxDevices> connections;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    for (size_t device = 0; device < connections.size(); ++device) {
      connections[device] = take_connection(device);
    }
  }
  if (closing_.valid()) ::eventfd_write(closing_.get(), 1);
  // Outside the lock: each waits for the listener to let go of the events it looks at.
}

void VerbsTarget::close() {
  listener_->withdraw(id_);
  end_->close();
}

}  // namespace farpage::verbs
