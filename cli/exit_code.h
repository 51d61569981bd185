#pragma once

#include "base/status.h"

namespace farpage {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// Tells the error on standard error; returns the exit code.
int report_error(const Error& error, int exit_code = kExitFailed);

}  // namespace farpage
