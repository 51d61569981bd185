#include "transport/ucx/regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/units.h"
#include "transport/peer_memory.h"
#include "transport/ucx/log_scope.h"
#include "transport/ucx/wire.h"

namespace farpage::ucx {
namespace {

std::atomic<uint32_t> last_generation{0};

// One mapping of UCX's.
class Mapped {
 public:
  static Result<std::unique_ptr<Mapped>> make(std::shared_ptr<Context> context, void* address,
                                              uint64_t bytes, const std::string& what) {
    const LogScope log;
    ucp_mem_map_params_t params = {};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS |
                        UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    params.address = address;
    params.length = bytes;
    params.flags = address == nullptr ? UCP_MEM_MAP_ALLOCATE : 0;
    params.memory_type = UCS_MEMORY_TYPE_HOST;
    ucp_mem_h handle = nullptr;
    const ucs_status_t status = ucp_mem_map(context->get(), &params, &handle);
    if (status != UCS_OK) {
      return fail_ucx(status, fmt::format("UCX cannot {} {} of memory (see ulimit -l, the size of "
                                          "/dev/shm, and kernel.shmmax)",
                                          what, format_bytes(bytes)));
    }
    return std::unique_ptr<Mapped>(new Mapped(std::move(context), handle));
  }
  ~Mapped() {
    const LogScope log;
    ucp_mem_unmap(context_->get(), handle_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  Context& context() const { return *context_; }
  ucp_mem_h handle() const { return handle_; }
  std::byte* data() const {
    ucp_mem_attr_t attributes = {};
    attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    FARPAGE_CHECK(ucp_mem_query(handle_, &attributes) == UCS_OK);
    return static_cast<std::byte*>(attributes.address);
  }

 private:
  Mapped(std::shared_ptr<Context> context, ucp_mem_h handle)
      : context_(std::move(context)), handle_(handle) {}

  std::shared_ptr<Context> context_;
  ucp_mem_h handle_;
};

struct SharedBacking final : Region::Backing {
  SharedBacking(std::unique_ptr<Mapped> memory, Trailer& end)
      : mapped(std::move(memory)), trailer(end), generation(end.generation) {}
  ~SharedBacking() override {
    std::atomic_ref<uint32_t>(trailer.registered).store(0, std::memory_order_release);
  }

  std::unique_ptr<Mapped> mapped;
  Trailer& trailer;  // in the mapped memory
  uint32_t generation;
};

struct LocalBacking final : Region::Backing {
  LocalBacking(std::shared_ptr<LocalMemory> of, Region named, std::unique_ptr<Mapped> mapping)
      : memory(std::move(of)), name(std::move(named)), mapped(std::move(mapping)) {}
  ~LocalBacking() override {
    const uint64_t key = name.slice(0, 0).local_key;
    name = Region();
    memory->end_uses_of(key);
  }

  std::shared_ptr<LocalMemory> memory;
  Region name;
  std::unique_ptr<Mapped> mapped;
};

}  // namespace

Result<Region> make_shared_region(std::shared_ptr<Context> context, uint64_t bytes, Access access) {
  if (auto may = check_peer_memory(bytes, access, /*pinned=*/true); !may) {
    return tl::unexpected(may.error());
  }
  const uint64_t trailer_at = trailer_offset(bytes);
  auto mapped = Mapped::make(std::move(context), nullptr, trailer_at + kTrailerBytes, "allocate");
  if (!mapped) return tl::unexpected(mapped.error());
  std::byte* data = (*mapped)->data();
  std::memset(data, 0, trailer_at + kTrailerBytes);
  auto& trailer = *reinterpret_cast<Trailer*>(data + trailer_at);
  trailer.generation = last_generation.fetch_add(1) + 1;
  std::atomic_ref<uint32_t>(trailer.registered).store(1, std::memory_order_release);
  return Region({data, bytes}, access, 0,
                std::make_unique<SharedBacking>(std::move(*mapped), trailer));
}

Result<RegionExport> export_shared_region(const Region& region) {
  const auto* backing = dynamic_cast<const SharedBacking*>(region.backing());
  if (backing == nullptr) {
    return fail(Code::kInvalid, "only memory that ucx has allocated can be shared");
  }
  const LogScope log;
  void* packed = nullptr;
  RegionName name = {};
  size_t key_bytes = 0;
  const ucs_status_t status = ucp_rkey_pack(backing->mapped->context().get(),
                                            backing->mapped->handle(), &packed, &key_bytes);
  if (status != UCS_OK) return fail_ucx(status, "UCX cannot name a region");
  name.key.assign(static_cast<const char*>(packed), key_bytes);
  ucp_rkey_buffer_release(packed);
  name.generation = backing->generation;
  name.address = reinterpret_cast<uint64_t>(region.data());
  name.bytes = region.bytes();
  RegionExport exported;
  exported.bytes = region.bytes();
  exported.access = region.access();
  exported.opaque = pack_region(name);
  return exported;
}

void LocalMemory::add(LocalUser& user) {
  std::lock_guard lock(mutex_);
  users_.push_back(&user);
}

void LocalMemory::remove(LocalUser& user) {
  std::lock_guard lock(mutex_);
  std::erase(users_, &user);
}

void LocalMemory::end_uses_of(uint64_t local_key) {
  std::lock_guard lock(mutex_);
  for (LocalUser* user : users_) {
    if (user->uses(local_key)) user->break_off();
  }
}

Result<Region> register_local_memory(const std::shared_ptr<LocalMemory>& memory,
                                     const MemoryRange& range) {
  if (range.data == nullptr || range.bytes == 0) {
    return fail(Code::kInvalid, "there is no memory to register");
  }
  auto name = register_host_memory(memory->registrations(), range);
  if (!name) return name;
  auto mapped = Mapped::make(memory->context(), range.data, range.bytes, "register");
  if (!mapped) return tl::unexpected(mapped.error());
  const uint64_t key = name->slice(0, 0).local_key;
  return Region(range, Access::kLocal, key,
                std::make_unique<LocalBacking>(memory, std::move(*name), std::move(*mapped)));
}

}  // namespace farpage::ucx
