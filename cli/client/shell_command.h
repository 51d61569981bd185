#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/client/signals.h"

namespace farpage {

// Runs a command of the user's with `sh -c`, and waits for its end. `variables` are added to its
// environment; standard output goes to standard error, for the caller's own result. kAborted:
// interrupted, and kTimeout: late; the command is then asked to end (SIGTERM) and waited for no
// longer.
Result<void> run_shell(const std::string& command,
                       const std::vector<std::pair<std::string, std::string>>& variables,
                       uint64_t deadline_ns, const Interrupts& interrupts);

}  // namespace farpage
