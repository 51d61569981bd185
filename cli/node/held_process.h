#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/node/systemd_fd_store.h"

namespace farpage {

// Starts a command with the files that are held, as sd_listen_fds(3) finds them, and where to give
// others (NOTIFY_SOCKET). It is asked to end when this process ends. Of a process with one thread.
Result<pid_t> start_held(const std::vector<std::string>& words, const SystemdFdStore& store);

}  // namespace farpage
