#include "transport/verbs/connection.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>

#include "base/clock.h"
#include "base/log.h"
#include "net/stream/stream.h"

namespace farpage::verbs {
namespace {

constexpr uint32_t kSendDepth = 1'024;
constexpr uint32_t kSendSlices = 16;
constexpr int kResolveMs = 2'000;
constexpr uint64_t kLookNs = 20 * kMillisecond;  // whether it has been cancelled

// The reason that a rejection carries. The event's own memory goes with its acknowledgement.
RejectWire reason_of(const rdma_cm_event& event) {
  RejectWire why = {};
  if (event.event == RDMA_CM_EVENT_REJECTED && event.param.conn.private_data != nullptr &&
      event.param.conn.private_data_len >= sizeof why) {
    std::memcpy(&why, event.param.conn.private_data, sizeof why);
  }
  return why.magic == kMagic ? why : RejectWire();
}

// librdmacm's numbers are those of the InfiniBand specification (12.6.7.2), or, of other devices, a
// negative errno.
std::string reject_reason(int status) {
  constexpr int kNobodyListens = 8;
  constexpr int kByTheNode = 28;
  if (status == kNobodyListens || status == -ECONNREFUSED) return "no process listens there";
  if (status == kByTheNode) return "it does not know the channel, or it is taken up already";
  return fmt::format("by the reject reason {} of InfiniBand's connection manager", status);
}

std::string error_text(int status) {
  return status < 0 ? fmt::format(": {}", std::strerror(-status)) : "";
}

// A sentence for each way that a connection can come to nothing.
tl::unexpected<Error> why_not(const rdma_cm_event& event, const RejectWire& why,
                              const std::string& where, uint32_t sent) {
  if (why.packet_bytes > 0) {
    return fail(
        Code::kUnavailable,
        fmt::format("the RDMA port of this host sends packets of {} bytes, and the node's at "
                    "{} takes {} at most: no page would come. Give both network devices the "
                    "same MTU (ip link set dev NAME mtu BYTES)",
                    sent, where, why.packet_bytes));
  }
  switch (event.event) {
    case RDMA_CM_EVENT_REJECTED:
      return fail(Code::kUnavailable, fmt::format("the node at {} refuses the connection: {}",
                                                  where, reject_reason(event.status)));
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return fail(Code::kUnavailable,
                  fmt::format("no RDMA device of this host leads to {}: `farpage doctor` names its "
                              "devices and their addresses",
                              where));
    default:
      return fail(Code::kUnavailable,
                  fmt::format("cannot connect to {} by RDMA: {}{}", where,
                              ::rdma_event_str(event.event), error_text(event.status)));
  }
}

class Dialing {
 public:
  Dialing(rdma_event_channel* events, const Endpoint& to, uint64_t deadline_ns,
          const std::function<bool()>& cancelled)
      : events_(events), where_(to.host()), deadline_ns_(deadline_ns), cancelled_(cancelled) {}

  bool was_refused() const { return refused_; }
  void will_send(uint32_t packet_bytes) { packet_bytes_ = packet_bytes; }

  // `started`: what the librdmacm call returned that brings the event.
  Result<void> await(int started, rdma_cm_event_type wanted) {
    if (started != 0) return not_started(errno);
    for (;;) {
      rdma_cm_event* event = nullptr;
      if (::rdma_get_cm_event(events_, &event) == 0) {
        const rdma_cm_event copy = *event;
        const RejectWire why = reason_of(copy);
        ::rdma_ack_cm_event(event);
        if (copy.event == wanted) return {};
        refused_ = copy.event == RDMA_CM_EVENT_REJECTED;
        return why_not(copy, why, where_, packet_bytes_);
      }
      if (errno != EAGAIN && errno != EINTR) return fail_errno(errno, "rdma_get_cm_event");
      const uint64_t now = boottime_clock().now_ns();
      if (now >= deadline_ns_) {
        return fail(Code::kTimeout, fmt::format("{} did not answer in time (RDMA)", where_));
      }
      if (cancelled_()) return fail(Code::kAborted, "the channel was closed meanwhile");
      wait_for(events_->fd, POLLIN, std::min(deadline_ns_, now + kLookNs));
    }
  }

 private:
  // A link that is down may come up again: that is as if the node were away.
  tl::unexpected<Error> not_started(int error) const {
    if (error != ENETUNREACH && error != EHOSTUNREACH && error != ENETDOWN) {
      return fail_errno(error, fmt::format("cannot connect to {} by RDMA", where_));
    }
    return fail(Code::kUnavailable,
                fmt::format("no way leads to {} by RDMA ({}): is the link of its device up?",
                            where_, std::generic_category().message(error)));
  }

  rdma_event_channel* events_;
  std::string where_;
  uint64_t deadline_ns_;
  const std::function<bool()>& cancelled_;
  bool refused_ = false;
  uint32_t packet_bytes_ = 0;
};

Result<void> make_queue_pair(Connection& connection, const Device& device) {
  const auto most = [](int limit) { return static_cast<uint32_t>(std::max(limit, 1)); };
  connection.send_depth = std::min(kSendDepth, most(device.limits.max_qp_wr));
  connection.send_slices =
      std::min({kSendSlices, most(device.limits.max_sge), most(device.limits.max_sge_rd)});
  auto completions = CompletionQueue::make(device.context, connection.send_depth + 1);
  if (!completions) return tl::unexpected(completions.error());
  connection.completions = std::move(*completions);
  ibv_qp_init_attr attributes = {};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = attributes.recv_cq = connection.completions.get();
  attributes.cap.max_send_wr = connection.send_depth;
  attributes.cap.max_send_sge = connection.send_slices;
  attributes.cap.max_recv_wr = 1;
  attributes.cap.max_recv_sge = 1;
  if (::rdma_create_qp(connection.id.get(), device.domain, &attributes) != 0) {
    return fail_errno(errno, fmt::format("cannot make a queue pair on {}", device.name));
  }
  return {};
}

}  // namespace

void EndCm::operator()(rdma_cm_id* id) const {
  if (id->qp != nullptr) {
    ::rdma_disconnect(id);
    ::rdma_destroy_qp(id);
  }
  ::rdma_destroy_id(id);
}

void set_ack_timeout(rdma_cm_id* id) {
  uint8_t exponent = kAckTimeoutExponent;
  if (::rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent,
                        sizeof exponent) == 0) {
    return;
  }
  static std::once_flag told;
  std::call_once(told, [] {
    log_warning(
        "this kernel has no option for how long RDMA waits for an acknowledgement (Linux "
        "5.2 does): a silent peer's connection ends after a quarter of a minute");
  });
}

Result<EventChannel> make_event_channel() {
  EventChannel channel(::rdma_create_event_channel());
  if (channel == nullptr) {
    return fail_errno(errno, "cannot open librdmacm's event channel (is rdma_ucm loaded?)");
  }
  ::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  return channel;
}

Result<CompletionQueue> CompletionQueue::make(ibv_context* context, uint32_t entries) {
  CompletionQueue made;
  made.channel_ = ::ibv_create_comp_channel(context);
  if (made.channel_ == nullptr) return fail_errno(errno, "cannot make a completion channel");
  ::fcntl(made.channel_->fd, F_SETFL, ::fcntl(made.channel_->fd, F_GETFL) | O_NONBLOCK);
  made.queue_ = ::ibv_create_cq(context, static_cast<int>(entries), nullptr, made.channel_, 0);
  if (made.queue_ == nullptr) return fail_errno(errno, "cannot make a completion queue");
  return made;
}

CompletionQueue::CompletionQueue(CompletionQueue&& other) noexcept
    : channel_(std::exchange(other.channel_, nullptr)),
      queue_(std::exchange(other.queue_, nullptr)) {}

CompletionQueue& CompletionQueue::operator=(CompletionQueue&& other) noexcept {
  reset();
  channel_ = std::exchange(other.channel_, nullptr);
  queue_ = std::exchange(other.queue_, nullptr);
  return *this;
}

void CompletionQueue::reset() {
  if (queue_ != nullptr) ::ibv_destroy_cq(queue_);
  if (channel_ != nullptr) ::ibv_destroy_comp_channel(channel_);
  queue_ = nullptr;
  channel_ = nullptr;
}

void CompletionQueue::acknowledge() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (::ibv_get_cq_event(channel_, &queue, &context) == 0) ::ibv_ack_cq_events(queue, 1);
}

bool Connection::lost() {
  rdma_cm_event* event = nullptr;
  bool ended = false;
  while (::rdma_get_cm_event(events.get(), &event) == 0) {
    ended |= event->event != RDMA_CM_EVENT_ADDR_CHANGE;
    ::rdma_ack_cm_event(event);
  }
  return ended;
}

Result<std::unique_ptr<Connection>> dial(const Devices& devices, size_t from, const Endpoint& to,
                                         const ConnectWire& introduction, uint64_t deadline_ns,
                                         const std::function<bool()>& cancelled, bool& refused) {
  auto connection = std::make_unique<Connection>();
  auto events = make_event_channel();
  if (!events) return tl::unexpected(events.error());
  connection->events = std::move(*events);
  rdma_cm_id* raw = nullptr;
  if (::rdma_create_id(connection->events.get(), &raw, nullptr, RDMA_PS_TCP) != 0) {
    return fail_errno(errno, "rdma_create_id");
  }
  connection->id.reset(raw);
  Dialing dialing(connection->events.get(), to, deadline_ns, cancelled);
  auto* local =
      from < devices.size() ? const_cast<sockaddr*>(devices[from].address.address()) : nullptr;
  auto* remote = const_cast<sockaddr*>(to.address());
  if (auto ended = dialing.await(::rdma_resolve_addr(raw, local, remote, kResolveMs),
                                 RDMA_CM_EVENT_ADDR_RESOLVED);
      !ended) {
    return tl::unexpected(ended.error());
  }
  connection->device = devices.index_of(raw->verbs, raw->port_num);
  if (connection->device == devices.size()) {
    return fail(Code::kInvalid,
                fmt::format("the way to {} leads over the RDMA device {}, which rdma.devices does "
                            "not name: name it, or leave the list empty",
                            to.host(), ::ibv_get_device_name(raw->verbs->device)));
  }
  if (auto ended =
          dialing.await(::rdma_resolve_route(raw, kResolveMs), RDMA_CM_EVENT_ROUTE_RESOLVED);
      !ended) {
    return tl::unexpected(ended.error());
  }
  const Device& device = devices[connection->device];
  if (auto made = make_queue_pair(*connection, device); !made) return tl::unexpected(made.error());
  set_ack_timeout(raw);
  ConnectWire said = introduction;
  said.packet_bytes = packet_bytes(device);
  dialing.will_send(said.packet_bytes);
  rdma_conn_param parameters = {};
  parameters.private_data = &said;
  parameters.private_data_len = sizeof said;
  parameters.initiator_depth =
      static_cast<uint8_t>(std::min<int>(kReadsOnTheWire, device.limits.max_qp_init_rd_atom));
  parameters.retry_count = kRetries;
  parameters.rnr_retry_count = kReceiverNotReadyRetries;
  if (auto ended = dialing.await(::rdma_connect(raw, &parameters), RDMA_CM_EVENT_ESTABLISHED);
      !ended) {
    refused = dialing.was_refused();
    return tl::unexpected(ended.error());
  }
  return connection;
}

}  // namespace farpage::verbs
