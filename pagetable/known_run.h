#pragma once

#include <cstdint>
#include <string>

namespace farpage {

// One run of a node whose epochs are its own, not a register's: as another process has known it, or
// as it is now. Epoch 0: never known.
struct KnownRun {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;
};

// Whether `now` is a run that may give out versions that `known` has given out already, as it may
// once the node's state file is lost (protocol rule 7).
bool goes_back(const KnownRun& known, const KnownRun& now);

// The sentence for both ends. `newest_epoch`: the highest that the node is known to have had.
std::string gone_back(uint64_t newest_epoch, uint64_t now_epoch);

}  // namespace farpage
