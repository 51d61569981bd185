#include "net/connect.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/socket_options.h"

namespace farpage {

Result<UniqueFd> begin_connect(const Endpoint& endpoint) {
  UniqueFd fd(::socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail_errno(errno, "cannot make a socket");
  if (::connect(fd.get(), endpoint.address(), endpoint.bytes) == 0 || errno == EINPROGRESS) {
    return fd;
  }
  return fail(Code::kUnavailable, std::strerror(errno));
}

Result<void> end_connect(int fd) {
  int error = 0;
  socklen_t bytes = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
  if (error != 0) return fail(Code::kUnavailable, std::strerror(error));
  set_connection_options(fd);
  return {};
}

uint64_t share_of_deadline(uint64_t now_ns, uint64_t deadline_ns, size_t left) {
  const uint64_t now = std::min(now_ns, deadline_ns);
  return now + (deadline_ns - now) / left;
}

}  // namespace farpage
