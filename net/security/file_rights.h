#pragma once

#include <string>

#include "base/status.h"

namespace farpage {

// Refuses a file that others than its owner may use. `what` it holds: "the token". What is no file
// is for whoever reads it to refuse.
Result<void> check_private(const std::string& path, const std::string& what);

}  // namespace farpage
