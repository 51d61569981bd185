#include "transport/local_registrations.h"

#include "transport/host_memory.h"

namespace farpage {
namespace {

struct LocalBacking final : Region::Backing {
  LocalBacking(std::shared_ptr<LocalRegistrations> table, uint64_t local_key)
      : registrations(std::move(table)), key(local_key) {}
  ~LocalBacking() override { registrations->remove(key); }

  std::shared_ptr<LocalRegistrations> registrations;
  uint64_t key;
};

}  // namespace

Result<Region> register_host_memory(const std::shared_ptr<LocalRegistrations>& registrations,
                                    const MemoryRange& range) {
  if (auto is_host = require_host_memory(range.place); !is_host) {
    return tl::unexpected(is_host.error());
  }
  const std::optional<uint64_t> key = registrations->add();
  if (!key) return fail(Code::kExhausted, "too many regions of local memory are registered");
  return Region(range, Access::kLocal, *key, std::make_unique<LocalBacking>(registrations, *key));
}

}  // namespace farpage
