#pragma once

#include <string>

namespace farpage {

// Lines on standard error, with time and level. Never called on the data path.
void log_warning(const std::string& message);

}  // namespace farpage
