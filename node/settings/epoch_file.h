#pragma once

#include <cstdint>
#include <string>

#include "base/process/closed_in_child.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace farpage {

// Where a node without a fleet keeps its last epoch, so that none is ever given out twice (protocol
// rule 7). Locked as long as this lives: two nodes on one file would share epochs.
class EpochFile {
 public:
  // Makes the file if it is not there. A damaged one is refused: its epoch cannot be guessed.
  static Result<EpochFile> open(const std::string& path);

  // Takes the next epoch, or `least` where that is later, and notes beside it `lease_ns`, or the
  // previous run's lease if that is longer; both are on disk before this returns. Runs that `least`
  // passes over are not in this file: the last of them is taken to have had this lease.
  Result<uint64_t> advance(uint64_t lease_ns, uint64_t least = 0);

  // The epoch that advance() gave out last, in this process or an earlier one.
  uint64_t last_epoch() const { return epoch_; }

  // The lease that clients may still hold from the run before this one; 0 if there was none.
  uint64_t previous_lease_ns() const { return previous_lease_ns_; }
  // For when that lease is over: notes `lease_ns` alone.
  Result<void> forget_previous_lease(uint64_t lease_ns);

 private:
  Result<void> write(uint64_t epoch, uint64_t lease_ns);

  std::string path_;
  UniqueFd fd_;
  ClosedInChild closed_in_child_;
  uint64_t epoch_ = 0;
  uint64_t previous_lease_ns_ = 0;
};

}  // namespace farpage
