#include "tier/link/epoch_watch.h"

namespace farpage {

void EpochWatch::watch(const EpochTag& known, const std::shared_ptr<ControlLink>& link) {
  if (asked_.contains(link)) return;
  std::erase_if(asked_, [](const auto& asked) { return asked.expired(); });
  asked_.insert(link);
  link->call(EpochRequest{known}, [weak = weak_from_this(), asked = std::weak_ptr(link),
                                   known = known.number](const Result<Reply>& reply) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    const auto* answer = reply ? std::get_if<EpochReply>(&*reply) : nullptr;
    // A node of an earlier release answers at once, with all of an epoch: it is not asked again.
    if (answer != nullptr && answer->view.number <= known) return;
    self->asked_.erase(asked);
    const auto alive = asked.lock();
    if (answer != nullptr && alive != nullptr) self->entered_(answer->view, *alive);
  });
}

}  // namespace farpage
