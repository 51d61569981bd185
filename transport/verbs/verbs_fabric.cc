#include "transport/verbs/verbs_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <random>

#include "base/clock.h"
#include "transport/lasting_memory.h"
#include "transport/verbs/initiator.h"
#include "transport/verbs/listener.h"
#include "transport/verbs/paths/port_files.h"

namespace farpage::verbs {
namespace {

// How long a channel that has one path waits for its others.
constexpr uint64_t kGraceNs = 100 * kMillisecond;

class VerbsFabric final : public Fabric,
                          public LastingMemory,
                          public PortSource,
                          public PathSource {
 public:
  VerbsFabric(std::shared_ptr<const Devices> devices, const VerbsOptions& options)
      : devices_(std::move(devices)),
        spin_ns_(options.spin_us * kMicrosecond),
        path_("RDMA over " + devices_->names()) {
    capabilities_.path = path_;
  }

  const Capabilities& capabilities() const override { return capabilities_; }

  Result<Region> allocate_readable(uint64_t bytes) override {
    return make_peer_region(devices_, domains(), bytes, Access::kRemoteRead, keys_);
  }

  Result<Region> allocate_lasting(uint64_t bytes, UniqueFd& file) override {
    auto memory = take_lasting_memory(bytes, file);
    if (!memory) return tl::unexpected(memory.error());
    return register_peer_memory(devices_, domains(), std::move(*memory), bytes, Access::kRemoteRead,
                                keys_);
  }

  Result<Region> register_local(const MemoryRange& range) override {
    return LocalKeys::add(keys_, range);
  }

  Result<RegionExport> export_region(const Region& region) override {
    const auto* backing = dynamic_cast<const PeerBacking*>(region.backing());
    if (backing == nullptr) {
      return fail(Code::kInvalid, "only memory that verbs has allocated can be shared");
    }
    RegionWire wire;
    wire.address = reinterpret_cast<uint64_t>(region.data());
    wire.paths = static_cast<uint32_t>(backing->registration.size());
    for (uint32_t i = 0; i < wire.paths; ++i) wire.keys[i] = backing->registration.remote_key(i);
    RegionExport exported;
    exported.bytes = region.bytes();
    exported.access = region.access();
    exported.opaque = encode_region(wire);
    return exported;
  }

  Result<OfferedTarget> offer_channel(ChannelPurpose purpose) override {
    std::lock_guard lock(mutex_);
    if (listener_ == nullptr) {
      auto listening = ChannelListener::listen(devices_, seen_);
      if (!listening) return tl::unexpected(listening.error());
      listener_ = std::move(*listening);
    }
    const OfferWire offer = {make_channel_id(), listener_->endpoints()};
    auto end = TargetEnd::make(devices_, purpose, seen_);
    if (!end) return tl::unexpected(end.error());
    listener_->offer(offer.channel, *end);
    OfferedTarget result;
    result.target = std::make_unique<VerbsTarget>(offer.channel, std::move(*end), listener_);
    result.offer.purpose = purpose;
    result.offer.opaque = encode_offer(offer);
    return result;
  }

  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    auto decoded = decode_offer(offer.opaque);
    if (!decoded) {
      return fail(Code::kProtocol, "the peer's channel offer is refused: it is not one of verbs");
    }
    auto readiness = DescriptorSet::make();
    if (!readiness) return tl::unexpected(readiness.error());
    InitiatorEnd end;
    end.readiness = std::move(*readiness);
    end.dialer = dialer_;
    end.keys = keys_;
    end.arrivals = std::make_shared<Arrivals>();
    end.endpoints = std::move(decoded->endpoints);
    end.introduction = {kMagic, 0, decoded->channel, random_owner()};
    end.one_path = offer.purpose == ChannelPurpose::kStage;
    end.spin_ns = spin_ns_;
    const size_t dialled = dial(end, deadline_ns);
    const uint64_t grace_ns = end.one_path ? 0 : kGraceNs;
    if (auto first = end.arrivals->wait_for_first(dialled, grace_ns, deadline_ns); !first) {
      end.arrivals->close();
      return tl::unexpected(first.error());
    }
    return std::make_unique<VerbsInitiator>(std::move(end));
  }

  std::vector<PathUse> paths() const override { return dialer_->ledger().paths(); }

  std::vector<PortTraffic> ports() const override {
    std::vector<PortTraffic> ports;
    for (size_t i = 0; i < devices_->size(); ++i) {
      const Device& device = (*devices_)[i];
      const PortFiles files(device);
      ports.push_back({.port = fmt::format("{} at {}", device.label, device.address.host()),
                       .link_bits_per_s = files.link_bits_per_s(),
                       .connections = seen_->connections[i].load(std::memory_order_relaxed),
                       .refused = seen_->refused[i].load(std::memory_order_relaxed),
                       .immediates = seen_->immediates[i].load(std::memory_order_relaxed),
                       .counts = files.counts()});
    }
    return ports;
  }

 private:
  // Of every device.
  std::vector<ibv_pd*> domains() const {
    std::vector<ibv_pd*> all;
    for (const Device& device : *devices_) all.push_back(device.domain);
    return all;
  }

  // The paths that are not known to be broken, or, if all are, every one. Returns how many.
  size_t dial(InitiatorEnd& end, uint64_t deadline_ns) {
    const uint64_t now = boottime_clock().now_ns();
    const auto rests = [&](const Endpoint& where) {
      return now < dialer_->health().dial_ns(where);
    };
    const bool all = std::all_of(end.endpoints.begin(), end.endpoints.end(), rests);
    size_t dialled = 0;
    for (uint32_t path = 0; path < end.endpoints.size(); ++path) {
      if (!all && rests(end.endpoints[path])) continue;
      ConnectWire introduction = end.introduction;
      introduction.path = path;
      end.dialled[path] = true;
      dialer_->dial(end.arrivals, end.endpoints[path], introduction, deadline_ns, end.one_path);
      ++dialled;
    }
    return dialled;
  }

  static uint64_t random_owner() {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }

  const std::shared_ptr<const Devices> devices_;
  const uint64_t spin_ns_;
  const std::string path_;
  Capabilities capabilities_ = {
      .backend = "verbs",
      .path = "",
      .one_sided = true,
      .protects_regions = true,
      .checksums_landing = false,
      .pushes = true,
      .reaches_devices = true,
      .max_in_flight = kMaxInFlight,
  };
  const std::shared_ptr<LocalKeys> keys_ = std::make_shared<LocalKeys>(devices_);
  const std::shared_ptr<Dialer> dialer_ = std::make_shared<Dialer>(devices_);

  const std::shared_ptr<PortEvents> seen_ = std::make_shared<PortEvents>();

  std::mutex mutex_;                           // of what follows
  std::shared_ptr<ChannelListener> listener_;  // from the first offer on
};

}  // namespace

Result<std::unique_ptr<Fabric>> make_verbs_fabric(const VerbsOptions& options) {
  auto devices = Devices::open(options.devices);
  if (!devices) return tl::unexpected(devices.error());
  return std::make_unique<VerbsFabric>(std::move(*devices), options);
}

}  // namespace farpage::verbs
