#pragma once

#include <cstdint>

#include "base/status.h"

namespace farpage {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// The exit code of a command that has judged bytes and written its figures. Wrong bytes are told
// first, whatever became of the figures.
Result<int> exit_code_of(uint64_t wrong_bytes, const Result<void>& written);

// Tells the error on standard error; returns the exit code.
int report_error(const Error& error, int exit_code = kExitFailed);

}  // namespace farpage
