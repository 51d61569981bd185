#include "tier/link/source_offers.h"

#include <utility>
#include <variant>

namespace farpage {
namespace {

void offer(const std::shared_ptr<View>& view, uint32_t source, RegionExport memory) {
  view->link->call(SourceRequest{source, std::move(memory)},
                   [weak = std::weak_ptr(view), source](const Result<Reply>& reply) {
                     const auto told = weak.lock();
                     if (told == nullptr || !reply) return;
                     if (std::holds_alternative<SourceReply>(*reply)) told->sources.taken(source);
                   });
}

}  // namespace

void offer_sources(const std::shared_ptr<View>& view, const ClientSources& sources) {
  for (const uint32_t source : sources.all_exported()) {
    if (!view->sources.begin(source)) continue;
    auto memory = sources.export_of(source);
    if (memory) offer(view, source, std::move(*memory));
    // It may have gone before the node was told.
    if (!memory || !sources.has(source)) withdraw_source(*view, source);
  }
}

void withdraw_source(View& view, uint32_t source) {
  if (!view.sources.end(source)) return;
  view.link->call(SourceRequest{source, {}}, [](const Result<Reply>&) {});
}

}  // namespace farpage
