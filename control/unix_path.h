#pragma once

#include <string>

#include "base/status.h"

namespace farpage {

// Refuses what does not fit a socket's address.
Result<void> check_unix_path(const std::string& path);

}  // namespace farpage
