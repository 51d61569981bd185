#include "node/client_memory.h"

#include <array>
#include <utility>

#include "pagetable/touch_log.h"

namespace farpage {

static_assert(kLaneBytes == round_up(sizeof(TouchLog), 4 * kKiB));

Result<OfferedStaging> make_staging(Fabric& fabric, uint64_t bytes, MemoryBudget::Grant grant) {
  auto offered = fabric.offer_channel(ChannelPurpose::kStage);
  if (!offered) return tl::unexpected(offered.error());
  auto memory = offered->target->allocate_writable(bytes);
  if (!memory) return tl::unexpected(memory.error());
  auto exported = fabric.export_region(*memory);
  if (!exported) return tl::unexpected(exported.error());
  OfferedStaging made;
  made.staging.grant = std::move(grant);
  made.staging.memory = std::move(*memory);
  made.staging.target = std::move(offered->target);
  made.memory = std::move(*exported);
  made.offer = std::move(offered->offer);
  return made;
}

Result<OfferedLane> make_lane(Fabric& fabric, const PageStore& store, MemoryBudget::Grant grant) {
  auto read = fabric.offer_channel(ChannelPurpose::kRead);
  if (!read) return tl::unexpected(read.error());
  auto touch = fabric.offer_channel(ChannelPurpose::kStage);
  if (!touch) return tl::unexpected(touch.error());
  auto touches = touch->target->allocate_writable(sizeof(TouchLog));
  if (!touches) return tl::unexpected(touches.error());

  OfferedLane made;
  const std::array<std::pair<const Region*, RegionExport*>, 3> exports = {{
      {&store.pool(), &made.reply.pool},
      {&store.index(), &made.reply.index},
      {&*touches, &made.reply.touches},
  }};
  for (const auto& [region, into] : exports) {
    auto exported = fabric.export_region(*region);
    if (!exported) return tl::unexpected(exported.error());
    *into = std::move(*exported);
  }
  made.reply.read_offer = std::move(read->offer);
  made.reply.touch_offer = std::move(touch->offer);
  made.lane.grant = std::move(grant);
  made.lane.read_target = std::move(read->target);
  made.lane.touches = std::move(*touches);
  made.lane.touch_target = std::move(touch->target);
  return made;
}

}  // namespace farpage
