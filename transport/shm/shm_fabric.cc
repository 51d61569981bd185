#include "transport/shm/shm_fabric.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>

#include "transport/lasting_memory.h"
#include "transport/shm/shm_initiator.h"
#include "transport/shm/shm_region.h"
#include "transport/shm/shm_target.h"
#include "transport/shm/source_file.h"

namespace farpage::shm {
namespace {

UniqueFd duplicate(const UniqueFd& fd) {
  return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
}

uint64_t random_id() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) | 1;
}

class ShmFabric final : public Fabric, public LastingMemory, public SourceMemory {
 public:
  const Capabilities& capabilities() const override { return capabilities_; }

  Result<Region> allocate_readable(uint64_t bytes) override {
    return make_shared_region(bytes, Access::kRemoteRead, 0, local_);
  }

  // A copy: the seals that keep clients from writing to the file keep this process from it, too.
  Result<Region> allocate_lasting(uint64_t bytes, UniqueFd& file) override {
    Mapping kept;
    if (file.valid()) {
      auto mapped = map_kept_memory(file, bytes);
      if (!mapped) return tl::unexpected(mapped.error());
      kept = std::move(*mapped);
    }
    auto memory = SharedMemory::create(bytes, Access::kRemoteRead, 0);
    if (!memory) return tl::unexpected(memory.error());
    if (kept.data() != nullptr) std::memcpy(memory->mapping.data(), kept.data(), bytes);
    UniqueFd its_file = duplicate(memory->fd);
    if (!its_file.valid()) return fail_errno(errno, "cannot duplicate a descriptor");
    auto region = share_memory(std::move(*memory), bytes, Access::kRemoteRead, local_);
    if (region) file = std::move(its_file);
    return region;
  }

  Result<Region> register_local(const MemoryRange& range) override {
    return register_host_memory(local_, range);
  }

  Result<RegionExport> export_region(const Region& region) override {
    auto* backing = dynamic_cast<SharedBacking*>(region.backing());
    if (backing == nullptr) {
      return fail(Code::kInvalid, "only memory that shm has allocated can be shared");
    }
    RegionExport exported;
    exported.bytes = region.bytes();
    exported.access = region.access();
    exported.fd = duplicate(backing->memory.fd);
    if (!exported.fd.valid()) return fail_errno(errno, "cannot duplicate a descriptor");
    return exported;
  }

  std::optional<RegionExport> export_source(const MemoryRange& memory) override {
    return export_file_of(memory);
  }
  Result<std::unique_ptr<PeerSource>> import_source(RegionExport memory) override {
    return import_file(std::move(memory));
  }

  Result<OfferedTarget> offer_channel(ChannelPurpose purpose) override {
    UniqueFd fd(::memfd_create("farpage-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd.valid()) return fail_errno(errno, "memfd_create");
    if (::ftruncate(fd.get(), sizeof(ChannelMemory)) != 0 ||
        ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
      return fail_errno(errno, "cannot set up a channel's memory");
    }
    auto mapping = Mapping::share(fd.get(), sizeof(ChannelMemory), Protection::kReadWrite);
    if (!mapping) return tl::unexpected(mapping.error());
    auto* memory = new (mapping->data()) ChannelMemory{};
    memory->id.store(random_id());
    OfferedTarget result;
    result.target = std::make_unique<ShmTarget>(std::move(*mapping));
    result.offer.purpose = purpose;
    result.offer.fd = std::move(fd);
    return result;
  }

  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t) override {
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat status;
    const int seals = offer.fd.valid() ? ::fcntl(offer.fd.get(), F_GET_SEALS) : -1;
    if (!offer.opaque.empty() || seals < 0 || (seals & kSeals) != kSeals ||
        ::fstat(offer.fd.get(), &status) != 0 ||
        static_cast<uint64_t>(status.st_size) != sizeof(ChannelMemory)) {
      return fail(Code::kProtocol, "the peer's channel offer is refused: it is no sealed channel");
    }
    auto mapping = Mapping::share(offer.fd.get(), sizeof(ChannelMemory), Protection::kReadWrite);
    if (!mapping) return tl::unexpected(mapping.error());
    auto& memory = *reinterpret_cast<ChannelMemory*>(mapping->data());
    if (memory.connected.exchange(1) != 0) {
      return fail(Code::kExists, "the channel offer has been taken up already");
    }
    return std::make_unique<ShmInitiator>(std::move(*mapping), local_);
  }

 private:
  const std::shared_ptr<LocalRegistrations> local_ = std::make_shared<LocalRegistrations>();
  const Capabilities capabilities_ = {
      .backend = "shm",
      .path = "shared memory, mapped read-only",
      .one_sided = true,
      .protects_regions = true,
      .checksums_landing = true,
      .pushes = true,
      .max_in_flight = kMaxInFlight,
  };
};

}  // namespace

SharedBacking::~SharedBacking() {
  if (source_key != 0) sources->remove(source_key);
  std::atomic_ref<uint32_t>(memory.trailer().registered).store(0, std::memory_order_release);
}

Result<Region> make_shared_region(uint64_t bytes, Access access, uint64_t channel,
                                  std::shared_ptr<LocalRegistrations> sources) {
  auto memory = SharedMemory::create(bytes, access, channel);
  if (!memory) return tl::unexpected(memory.error());
  return share_memory(std::move(*memory), bytes, access, std::move(sources));
}

Result<Region> share_memory(SharedMemory memory, uint64_t bytes, Access access,
                            std::shared_ptr<LocalRegistrations> sources) {
  const MemoryRange range = {memory.mapping.data(), bytes};
  auto backing = std::make_unique<SharedBacking>(std::move(memory));
  if (sources != nullptr) {
    const std::optional<uint64_t> key = sources->add();
    if (!key) return fail(Code::kExhausted, "too many regions of local memory are registered");
    backing->source_key = *key;
    backing->sources = std::move(sources);
  }
  const uint64_t key = backing->source_key;
  return Region(range, access, key, std::move(backing));
}

std::unique_ptr<Fabric> make_shm_fabric() {
  return std::make_unique<ShmFabric>();
}

}  // namespace farpage::shm
