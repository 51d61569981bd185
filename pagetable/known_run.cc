#include "pagetable/known_run.h"

#include <fmt/format.h>

namespace farpage {

bool goes_back(const KnownRun& known, const KnownRun& now) {
  if (known.epoch == 0) return false;
  return now.epoch < known.epoch ||
         (now.epoch == known.epoch && now.incarnation != known.incarnation);
}

std::string gone_back(uint64_t newest_epoch, uint64_t now_epoch) {
  return fmt::format(
      "the node has gone back from epoch {0} to {1}, as it does when its state file (node.state) "
      "is lost, and its versions could name two pages: who knew it before refuses it. Start the "
      "node again with --set node.least_epoch={2}, or everything else that knew it",
      newest_epoch, now_epoch, newest_epoch + 1);
}

}  // namespace farpage
