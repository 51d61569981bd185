#pragma once

#include <string>

#include "base/status.h"
#include "cli/client/signals.h"
#include "control/messages.h"
#include "net/dial.h"

namespace farpage {

// How a running node is. Waits for some seconds at most; kAborted: interrupted.
Result<StatusReply> ask_status(const std::string& address, const ClientCredentials& credentials,
                               uint64_t connect_ms, const Interrupts& interrupts);

}  // namespace farpage
