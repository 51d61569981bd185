#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <span>

#include "base/unique_fd.h"

namespace farpage {

inline constexpr size_t kMaxPassedDescriptors = 16;  // beside one message

// recvmsg(2) on a Unix socket, which never blocks, and the descriptors that come beside the bytes
// (SCM_RIGHTS), put behind those in `received`; what a message has beyond the most is closed.
// Returns what recvmsg does; -1: see errno. EMFILE: this process had no descriptor left for one of
// them, and the bytes are lost.
ssize_t receive_with_descriptors(int socket, std::span<const iovec> parts,
                                 std::deque<UniqueFd>& received);

}  // namespace farpage
