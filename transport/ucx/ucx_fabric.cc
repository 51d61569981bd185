#include "transport/ucx/ucx_fabric.h"

#include <mutex>

#include "net/security/greeting.h"
#include "transport/ucx/initiator.h"
#include "transport/ucx/log_scope.h"
#include "transport/ucx/paths.h"
#include "transport/ucx/regions.h"
#include "transport/ucx/target_worker.h"

namespace farpage::ucx {
namespace {

class UcxFabric final : public Fabric {
 public:
  UcxFabric(std::shared_ptr<Context> context, const UcxOptions& options)
      : context_(std::move(context)),
        trusted_clients_(options.trusted_clients),
        paths_(std::make_shared<PathBook>(options.allow_emulated)),
        local_(std::make_shared<LocalMemory>(context_)) {}

  const Capabilities& capabilities() const override { return paths_->current(); }

  Result<Region> allocate_readable(uint64_t bytes) override {
    if (!trusted_clients_) return refuse_untrusted();
    return make_shared_region(context_, bytes, Access::kRemoteRead);
  }

  Result<Region> register_local(const MemoryRange& range) override {
    return register_local_memory(local_, range);
  }

  Result<RegionExport> export_region(const Region& region) override {
    return export_shared_region(region);
  }

  Result<OfferedTarget> offer_channel(ChannelPurpose purpose) override {
    if (!trusted_clients_) return refuse_untrusted();
    auto worker = target_worker();
    if (!worker) return tl::unexpected(worker.error());
    const Offer offer = {make_channel_id(), purpose, (*worker)->address()};
    auto state = std::make_shared<TargetState>(offer.channel, purpose);
    (*worker)->add(state);
    OfferedTarget result;
    result.target = std::make_unique<UcxTarget>(std::move(state), *worker);
    result.offer.purpose = purpose;
    result.offer.opaque = pack_offer(offer);
    return result;
  }

  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    const auto parsed = parse_offer(offer.opaque);
    if (!parsed || parsed->purpose != offer.purpose) {
      return fail(Code::kProtocol,
                  "the peer's channel offer is refused: it is damaged, or not one of ucx");
    }
    return UcxInitiator::connect(local_, paths_, *parsed, deadline_ns);
  }

 private:
  static tl::unexpected<Error> refuse_untrusted() {
    return fail(
        Code::kDenied,
        "ucx serves only clients that are trusted, for UCX lets each of them write all "
        "memory of this node: set ucx.trusted_clients = true if they are, or use verbs or tcp");
  }

  Result<std::shared_ptr<TargetWorker>> target_worker() {
    std::lock_guard lock(mutex_);
    if (target_worker_ == nullptr) {
      auto started = TargetWorker::start(context_);
      if (!started) return started;
      target_worker_ = std::move(*started);
    }
    return target_worker_;
  }

  const std::shared_ptr<Context> context_;
  const bool trusted_clients_;
  const std::shared_ptr<PathBook> paths_;
  const std::shared_ptr<LocalMemory> local_;
  std::mutex mutex_;  // of what follows
  std::shared_ptr<TargetWorker> target_worker_;
};

}  // namespace

Result<std::unique_ptr<Fabric>> make_ucx_fabric(const UcxOptions& options) {
  auto context = Context::open(options);
  if (!context) return tl::unexpected(context.error());
  return std::make_unique<UcxFabric>(std::move(*context), options);
}

}  // namespace farpage::ucx
