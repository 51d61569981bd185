#pragma once

#include <string>

#include "doctor/finding/finding.h"
#include "doctor/finding/wanted.h"
#include "doctor/host/privileges.h"

namespace farpage::doctor {

struct UnixPathFacts {
  enum class Present : uint8_t { kNothing, kDeadSocket, kLiveSocket, kOtherFile };

  std::string folder;
  bool is_folder = false;
  bool may_make_folder = false;  // where it is missing
  bool may_write = false;
  Present present = Present::kNothing;
};

UnixPathFacts read_unix_path(const std::string& path);

Finding check_unix_path(const UnixPathFacts& facts, const Wanted& wanted,
                        const Privileges& privileges);

}  // namespace farpage::doctor
