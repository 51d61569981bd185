#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "base/units.h"

namespace farpage {

// The table [embedded]: a memory node inside the client's own process.
struct EmbeddedOptions {
  // Processes of one user that open the same name share one node, which lives in the first of them;
  // empty: the node is this client's alone.
  std::string name = {};
  uint64_t pool_bytes = 64 * kMiB;
  uint64_t page_bytes = 64 * kKiB;  // the longest page

  Result<void> validate() const;
};
std::vector<ConfigField> fields(EmbeddedOptions& options);

}  // namespace farpage
