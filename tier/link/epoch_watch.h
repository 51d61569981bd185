#pragma once

#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "control/link.h"

namespace farpage {

// Leaves a question at nodes, which a node answers when it enters another epoch: a client hears of
// an epoch at once, and not with its next renewal. On the runtime's thread.
class EpochWatch : public std::enable_shared_from_this<EpochWatch> {
 public:
  // `entered`: the node at this link is in a later epoch than the one that it told of before.
  explicit EpochWatch(std::function<void(const EpochTag&, ControlLink&)> entered)
      : entered_(std::move(entered)) {}

  // The node at this link has told that it is in epoch `known`, with a renewal: so the client asks
  // no more often than it renews, whatever the node answers. Nothing where a question waits.
  void watch(const EpochTag& known, const std::shared_ptr<ControlLink>& link);

 private:
  const std::function<void(const EpochTag&, ControlLink&)> entered_;
  // Links at which a question waits, and those whose node knows no question that waits.
  std::set<std::weak_ptr<ControlLink>, std::owner_less<>> asked_;
};

}  // namespace farpage
