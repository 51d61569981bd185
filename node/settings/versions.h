#pragma once

#include <cstdint>
#include <memory>

#include "integrity/page_header.h"
#include "node/settings/epoch_file.h"
#include "pagetable/guards.h"

namespace farpage {

// Gives out this node's versions, and knows from when on it may (protocol rules 7 and 9).
class Versions {
 public:
  // `epoch`: what `file` has just given out. `lease_ns`: of this run. The file may be that of
  // several, whose versions are never compared.
  Versions(std::shared_ptr<EpochFile> file, uint64_t epoch, uint64_t lease_ns, uint64_t now_ns);

  uint64_t epoch() const { return epoch_; }
  // A client may still read what the run before this one held.
  uint64_t open_ns() const { return enforced(Guard::kViewWait) ? open_ns_ : 0; }
  void opened();

  // In the epoch of the state file, or the next one.
  Result<Version> next();
  // In an epoch of the register.
  Result<Version> next_in(uint64_t epoch);

 private:
  std::shared_ptr<EpochFile> file_;
  uint64_t epoch_;
  const uint64_t lease_ns_;
  uint64_t open_ns_;
  uint64_t counter_ = 0;
};

}  // namespace farpage
