#include "transport/verbs/listener.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "net/stream/stream.h"

namespace farpage::verbs {
namespace {

constexpr int kBacklog = 1'024;
constexpr uint64_t kAskAgainNs = 100 * kMillisecond;

void set_port(Endpoint& endpoint, uint16_t port_in_network_order) {
  if (endpoint.family() == AF_INET) {
    reinterpret_cast<sockaddr_in&>(endpoint.storage).sin_port = port_in_network_order;
  } else {
    reinterpret_cast<sockaddr_in6&>(endpoint.storage).sin6_port = port_in_network_order;
  }
}

}  // namespace

Result<std::unique_ptr<ChannelListener>> ChannelListener::listen(
    std::shared_ptr<const Devices> devices, std::shared_ptr<PortEvents> seen) {
  std::unique_ptr<ChannelListener> listener(new ChannelListener);
  listener->devices_ = std::move(devices);
  listener->seen_ = std::move(seen);
  auto events = make_event_channel();
  if (!events) return tl::unexpected(events.error());
  listener->events_ = std::move(*events);
  listener->stop_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener->stop_.valid()) return fail_errno(errno, "eventfd");
  for (size_t device = 0; device < listener->devices_->size(); ++device) {
    if (auto bound = listener->bind(device); !bound) return tl::unexpected(bound.error());
  }
  listener->thread_ = std::thread([raw = listener.get()] { raw->serve(); });
  return listener;
}

Result<void> ChannelListener::bind(size_t device) {
  const Device& own = (*devices_)[device];
  const auto refuse = [&](const char* what) {
    return fail_errno(errno, fmt::format("cannot listen on the RDMA device {} at {} ({})",
                                         own.label, own.address.host(), what));
  };
  rdma_cm_id* raw = nullptr;
  if (::rdma_create_id(events_.get(), &raw, nullptr, RDMA_PS_TCP) != 0) return refuse("create");
  CmId id(raw);
  if (::rdma_bind_addr(raw, const_cast<sockaddr*>(own.address.address())) != 0) {
    return refuse("bind");
  }
  if (::rdma_listen(raw, kBacklog) != 0) return refuse("listen");
  Endpoint endpoint = own.address;
  set_port(endpoint, ::rdma_get_src_port(raw));
  listening_.push_back(std::move(id));
  endpoints_.push_back(endpoint);
  return {};
}

ChannelListener::~ChannelListener() {
  if (!thread_.joinable()) return;
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void ChannelListener::offer(const ChannelId& channel, const std::shared_ptr<TargetEnd>& end) {
  std::lock_guard lock(mutex_);
  offers_.emplace(channel, end);
}

void ChannelListener::withdraw(const ChannelId& channel) {
  std::lock_guard lock(mutex_);
  offers_.erase(channel);
}

size_t ChannelListener::offers() const {
  std::lock_guard lock(mutex_);
  return offers_.size();
}

void ChannelListener::serve() {
  std::array<pollfd, 2> watched = {pollfd{events_->fd, POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
  while ((watched[1].revents & POLLIN) == 0) {
    rdma_cm_event* event = nullptr;
    if (::rdma_get_cm_event(events_.get(), &event) == 0) {
      handle(event);
    } else if (errno == EAGAIN || errno == EINTR) {
      wait_for_any(watched, kNever);
    } else {
      warnings_.warn(std::string("librdmacm gives no events: ") + std::strerror(errno));
      wait_for_any(std::span(watched).last(1), boottime_clock().now_ns() + kAskAgainNs);
    }
  }
}

// Acknowledges the event, without which its connection cannot end.
void ChannelListener::handle(rdma_cm_event* event) {
  switch (event->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return requested(event);
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
      return ended(event);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      warnings_.warn(
          "an RDMA device of this node has gone: its connections end. Once it is back, start the "
          "node anew, for only a new process uses it");
      return ended(event);
    default:
      ::rdma_ack_cm_event(event);
  }
}

void ChannelListener::requested(rdma_cm_event* event) {
  CmId request(event->id);
  ConnectWire introduction = {};
  if (event->param.conn.private_data_len >= sizeof introduction) {
    std::memcpy(&introduction, event->param.conn.private_data, sizeof introduction);
  }
  const size_t device = devices_->index_of(event->id->verbs, event->id->port_num);
  const uint8_t reads_asked = std::min(event->param.conn.responder_resources, kReadsOnTheWire);
  ::rdma_ack_cm_event(event);
  std::shared_ptr<TargetEnd> end;
  {
    std::lock_guard lock(mutex_);
    const auto offered = offers_.find(introduction.channel);
    if (introduction.magic == kMagic && offered != offers_.end()) end = offered->second.lock();
  }
  if (device == devices_->size()) {
    ::rdma_reject(request.get(), nullptr, 0);
    return;
  }
  const uint32_t taken = end != nullptr ? packet_bytes((*devices_)[device]) : 0;
  if (taken > 0 && introduction.packet_bytes > taken) {
    return reject(request.get(), device, introduction.packet_bytes, taken);
  }
  if (end == nullptr || !end->accept(request, device, introduction, reads_asked)) {
    seen_->refused[device].fetch_add(1, std::memory_order_relaxed);
    ::rdma_reject(request.get(), nullptr, 0);
  }
}

// The connecting side decides on the size of packets: the network device here would drop these.
void ChannelListener::reject(rdma_cm_id* request, size_t device, uint32_t sent, uint32_t taken) {
  const Device& own = (*devices_)[device];
  warnings_.warn(
      fmt::format("a client is refused: its RDMA port sends packets of {} bytes, and {} at {} here "
                  "takes {} at most; give both network devices the same MTU",
                  sent, own.label, own.address.host(), taken));
  seen_->refused[device].fetch_add(1, std::memory_order_relaxed);
  const RejectWire why = {kMagic, taken};
  ::rdma_reject(request, &why, sizeof why);
}

void ChannelListener::ended(rdma_cm_event* event) {
  // Null for what was never let in. Else its end is there until the event is acknowledged: it ends
  // its connections before it goes, and each waits for that.
  auto* end = static_cast<TargetEnd*>(event->id->context);
  const CmId connection = end != nullptr ? end->release(event->id) : nullptr;
  ::rdma_ack_cm_event(event);
  // `connection` ends now; where its channel ends it, that goes on now.
}

}  // namespace farpage::verbs
