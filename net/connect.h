#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "base/unique_fd.h"
#include "net/address/resolve.h"

namespace farpage {

// One TCP connection in two steps, neither of which blocks: a caller of both waits in between until
// the socket can be written.
Result<UniqueFd> begin_connect(const Endpoint& endpoint);
// Whether it has connected.
Result<void> end_connect(int fd);

// Until when the first of `left` addresses has time, so that none takes that of those behind it.
uint64_t share_of_deadline(uint64_t now_ns, uint64_t deadline_ns, size_t left);

}  // namespace farpage
