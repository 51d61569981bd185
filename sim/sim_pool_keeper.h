#pragma once

#include <fcntl.h>

#include <string>

#include "node/store/pool_handoff.h"

namespace farpage {

// Has a simulated node's pool for its next run.
class SimPoolKeeper final : public PoolHandoff {
 public:
  UniqueFd kept(const std::string& name) override {
    return name == name_ ? duplicate(file_) : UniqueFd();
  }
  void keep(const std::string& name, const UniqueFd& file) override {
    name_ = name;
    file_ = duplicate(file);
  }
  void lose() { file_.reset(); }

 private:
  static UniqueFd duplicate(const UniqueFd& file) {
    return UniqueFd(file.valid() ? ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0) : -1);
  }

  std::string name_;
  UniqueFd file_;
};

}  // namespace farpage
