#pragma once

#include <string>

#include "base/unique_fd.h"

namespace farpage {

// Keeps the memory of a node's pool for the node's next run, in this process or in another one. On
// the node's thread.
class PoolHandoff {
 public:
  virtual ~PoolHandoff() = default;

  // The memory kept under this name, which says what lies in it. Invalid: nothing.
  virtual UniqueFd kept(const std::string& name) = 0;
  // From now on this and nothing else; an invalid file: nothing at all.
  virtual void keep(const std::string& name, const UniqueFd& file) = 0;
};

}  // namespace farpage
