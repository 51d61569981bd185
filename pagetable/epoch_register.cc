#include "pagetable/epoch_register.h"

#include <algorithm>

namespace farpage {

bool RegisteredEpoch::all_confirmed() const {
  return std::ranges::all_of(epoch.members, [this](const Member& member) {
    return std::ranges::find(confirmed, member.node) != confirmed.end();
  });
}

}  // namespace farpage
