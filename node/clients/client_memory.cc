#include "node/clients/client_memory.h"

#include <utility>

#include "pagetable/touch_log.h"

namespace farpage {

Result<OfferedStaging> make_staging(Fabric& fabric, StagingNeeds needs) {
  auto offered = fabric.offer_channel(ChannelPurpose::kStage);
  if (!offered) return tl::unexpected(offered.error());
  const uint64_t log_bytes = needs.has_log ? kTouchLogBytes : 0;
  auto memory = offered->target->allocate_writable(needs.put_bytes + log_bytes);
  if (!memory) return tl::unexpected(memory.error());
  auto exported = fabric.export_region(*memory);
  if (!exported) return tl::unexpected(exported.error());
  OfferedStaging made;
  made.staging.grant = std::move(needs.grant);
  made.staging.log_grant = std::move(needs.log_grant);
  made.staging.put_bytes = needs.put_bytes;
  made.staging.memory = std::move(*memory);
  made.staging.target = std::move(offered->target);
  made.memory = std::move(*exported);
  made.offer = std::move(offered->offer);
  return made;
}

Result<OfferedLane> make_lane(Fabric& fabric, const PageStore& store) {
  auto read = fabric.offer_channel(ChannelPurpose::kRead);
  if (!read) return tl::unexpected(read.error());
  auto pool = fabric.export_region(store.pool());
  if (!pool) return tl::unexpected(pool.error());
  auto index = fabric.export_region(store.index());
  if (!index) return tl::unexpected(index.error());
  OfferedLane made;
  if (store.geometry().is_apart()) {
    auto headers = fabric.export_region(store.headers());
    if (!headers) return tl::unexpected(headers.error());
    made.reply.headers = std::move(*headers);
  }
  made.reply.read_offer = std::move(read->offer);
  made.reply.pool = std::move(*pool);
  made.reply.index = std::move(*index);
  made.lane.read_target = std::move(read->target);
  return made;
}

}  // namespace farpage
