#include "node/store/kept_pool.h"

#include <fmt/format.h>

#include "base/log.h"
#include "integrity/page_header.h"
#include "transport/lasting_memory.h"

namespace farpage {
namespace {

Result<Pool> new_pool(const Geometry& geometry, Fabric& fabric) {
  Pool pool;
  auto memory = fabric.allocate_readable(geometry.payloads_bytes());
  if (!memory) return tl::unexpected(memory.error());
  pool.memory = std::move(*memory);
  if (!geometry.is_apart()) return pool;
  auto headers = fabric.allocate_readable(geometry.headers_bytes());
  if (!headers) return tl::unexpected(headers.error());
  pool.headers = std::move(*headers);
  return pool;
}

}  // namespace

Result<Pool> take_pool(const Geometry& geometry, Fabric& fabric, PoolHandoff* keeper,
                       std::string_view whose) {
  if (keeper != nullptr && geometry.is_apart()) {
    return fail(Code::kInvalid,
                "a pool whose headers lie apart from its payloads cannot be kept for the next run: "
                "let them lie together, or keep no pool");
  }
  auto* lasting = keeper == nullptr ? nullptr : dynamic_cast<LastingMemory*>(&fabric);
  if (lasting == nullptr) {
    if (keeper != nullptr) {
      log_warning(fmt::format("{} cannot keep its memory: the next run begins empty",
                              fabric.capabilities().backend));
      keeper->keep({}, {});
    }
    return new_pool(geometry, fabric);
  }
  const std::string name =
      fmt::format("farpage-{}-{}-{}-{}", kPageFormat, geometry.page_bytes, geometry.slots, whose);
  UniqueFd file = keeper->kept(name);
  bool has_former = file.valid();
  // Any other kept memory is in the way of this run's own.
  if (!has_former) keeper->keep(name, file);
  auto memory = lasting->allocate_lasting(geometry.pool_bytes(), file);
  if (!memory && has_former) {
    log_warning(
        fmt::format("cannot keep the pages of the previous run: {}", memory.error().message));
    file.reset();
    keeper->keep(name, file);
    has_former = false;
    memory = lasting->allocate_lasting(geometry.pool_bytes(), file);
  }
  if (!memory) return tl::unexpected(memory.error());
  keeper->keep(name, file);
  return Pool{std::move(*memory), {}, has_former};
}

}  // namespace farpage
