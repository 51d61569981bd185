// How a channel comes to be: the handshake, which path it has got, and regions.
#include <fmt/format.h>
#include <poll.h>

#include <cstring>

#include "net/stream/stream.h"
#include "transport/peer_memory.h"
#include "transport/ucx/attach.h"
#include "transport/ucx/initiator.h"
#include "transport/ucx/log_scope.h"

namespace farpage::ucx {

Result<std::unique_ptr<Initiator>> UcxInitiator::connect(const std::shared_ptr<LocalMemory>& local,
                                                         std::shared_ptr<PathBook> paths,
                                                         const Offer& offer, uint64_t deadline_ns) {
  const LogScope log;
  auto worker = Worker::create(local->context());
  if (!worker) return tl::unexpected(worker.error());
  std::unique_ptr<UcxInitiator> channel(new UcxInitiator(
      local, std::move(paths), std::move(*worker), local->context()->request_bytes()));
  if (auto taken = channel->take_up(offer, deadline_ns); !taken) {
    return tl::unexpected(taken.error());
  }
  if (auto checked = channel->check_path(); !checked) return tl::unexpected(checked.error());
  return channel;
}

Result<void> UcxInitiator::take_up(const Offer& offer, uint64_t deadline_ns) {
  id_ = offer.channel;
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kWelcomeMessage;
  handler.cb = on_welcome;
  handler.arg = this;
  ucs_status_t status = ucp_worker_set_am_recv_handler(worker_->get(), &handler);
  if (status != UCS_OK) return fail_ucx(status, "UCX takes no active messages");
  auto own = worker_->address();
  if (!own) return tl::unexpected(own.error());
  auto endpoint = worker_->connect(offer.address, on_error, this);
  if (!endpoint) return tl::unexpected(endpoint.error());
  endpoint_ = *endpoint;

  const std::string reply_to = pack_offer({offer.channel, offer.purpose, *own});
  ucp_request_param_t param = describe(message_);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  note(message_, ucp_am_send_nbx(endpoint_, kHelloMessage, &id_, sizeof id_, reply_to.data(),
                                 reply_to.size(), &param));
  while (failure_ == UCS_OK && (!is_welcomed_ || message_.is_under_way)) {
    if (worker_->progress() || !worker_->arm()) continue;
    if (!wait_for(worker_->event_fd(), POLLIN, deadline_ns)) {
      end_operations();  // before what it sends is gone
      return fail(Code::kTimeout, "the peer has not answered over UCX before the deadline");
    }
  }
  if (failure_ != UCS_OK) {
    status = failure_;
    end_operations();
    return fail_ucx(status, "the peer cannot be reached over UCX");
  }
  if (welcome_.accepted != 1) {
    return fail(Code::kExists, "the node does not know the channel, or it is taken up already");
  }
  return {};
}

Result<void> UcxInitiator::check_path() {
  const UcxLanes lanes(endpoint_);
  bool one_sided = false;
  for (const UcxLane& lane : lanes.all()) one_sided |= lane.reads_itself;
  if (one_sided) return {};  // which of them carries a region's reads, its import tells
  const std::string path = lanes.emulated_name();
  if (!paths_->allow_emulated()) return refuse_emulated(path);
  paths_->note(path, false);
  return {};
}

tl::unexpected<Error> UcxInitiator::refuse_emulated(const std::string& path) {
  return fail(Code::kUnavailable,
              fmt::format("UCX has only {} to this peer, where the peer's CPU answers every read, "
                          "unchecked: give UCX a transport that reads by itself (rc; on one host "
                          "posix or sysv, and room in /dev/shm or kernel.shmmax), or allow it with "
                          "--allow-emulated",
                          path));
}

ucs_status_t UcxInitiator::on_welcome(void* argument, const void* header, size_t header_bytes,
                                      void*, size_t, const ucp_am_recv_param_t*) {
  auto& channel = *static_cast<UcxInitiator*>(argument);
  if (header_bytes == sizeof channel.welcome_) {
    std::memcpy(&channel.welcome_, header, header_bytes);
    channel.is_welcomed_ = true;
  }
  return UCS_OK;
}

void UcxInitiator::on_error(void* argument, ucp_ep_h, ucs_status_t status) {
  auto& channel = *static_cast<UcxInitiator*>(argument);
  if (channel.failure_ == UCS_OK) channel.failure_ = status;
}

Result<RemoteRegion> UcxInitiator::import_region(RegionExport region, const RegionUse& use) {
  const auto refuse = [](const char* why) {
    return fail(Code::kProtocol, std::string("the peer's region is refused: ") + why);
  };
  if (const char* why = why_unusable(region, use)) return refuse(why);
  const auto name = parse_region(region.opaque);
  if (!name) return refuse("it is damaged, or of another kind than ucx");
  if (region.bytes != name->bytes) return refuse("its size is not what its name says");
  if (state_ != State::kOpen) return fail(Code::kUnavailable, "the channel is closed");

  const LogScope log;
  const UcxLanes lanes(endpoint_);
  for (const UcxLane& lane : lanes.all()) {
    const bool names_it = (name->domains >> lane.peer_domain & 1) != 0;
    if (names_it && lane.is_shared_memory() &&
        !can_attach(lane.transport(), key_part(*name, lane.peer_domain))) {
      return fail(Code::kNotFound, "the peer's region has gone");
    }
  }
  const UcxLane* lane = lanes.reader(name->domains);
  if (lane == nullptr && !paths_->allow_emulated()) return refuse_emulated(lanes.emulated_name());
  ucp_rkey_h key = nullptr;
  const ucs_status_t status = ucp_ep_rkey_unpack(endpoint_, name->key.data(), &key);
  if (status != UCS_OK) return fail_ucx(status, "UCX cannot reach the peer's region");
  Imported imported = {{}, name->address, use, nullptr};
  imported.key.reset(key);
  if (lane != nullptr && lane->is_shared_memory()) {
    void* trailer = nullptr;
    if (ucp_rkey_ptr(key, name->address + trailer_offset(name->bytes), &trailer) != UCS_OK) {
      return refuse("it cannot be attached");
    }
    imported.registered = &static_cast<const Trailer*>(trailer)->registered;
    if (static_cast<const Trailer*>(trailer)->generation != name->generation ||
        !imported.is_registered()) {
      return fail(Code::kNotFound, "the peer's region has gone");
    }
  }
  paths_->note(lane == nullptr ? lanes.emulated_name() : lane->name, lane != nullptr);
  imported_.push_back(std::move(imported));
  return RemoteRegion{static_cast<uint32_t>(imported_.size() - 1)};
}

}  // namespace farpage::ucx
