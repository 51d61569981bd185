#pragma once

#include <sys/un.h>

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace farpage {

inline constexpr size_t kMaxUnixPathBytes = sizeof(sockaddr_un::sun_path) - 1;

// Refuses what does not fit a socket's address.
Result<void> check_unix_path(const std::string& path);
// Of a path that fits.
sockaddr_un unix_address(const std::string& path);

// A socket connected to the path; on failure none, and the reason in `error_number`. Never waits:
// that a listener's backlog is full is a failure too.
UniqueFd connect_unix(const std::string& path, int& error_number);

}  // namespace farpage
