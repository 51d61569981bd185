#include "net/address/unix_path.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>

namespace farpage {

Result<void> check_unix_path(const std::string& path) {
  if (path.empty()) return fail(Code::kInvalid, "a Unix socket needs a path");
  if (path.size() > kMaxUnixPathBytes) {
    return fail(Code::kInvalid,
                fmt::format("the socket path '{}' has {} bytes, and a Unix socket takes {}: choose "
                            "a shorter one",
                            path, path.size(), kMaxUnixPathBytes));
  }
  return {};
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

UniqueFd connect_unix(const std::string& path, int& error_number) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  if (!fd.valid() ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    error_number = errno;
    return UniqueFd();
  }
  error_number = 0;
  return fd;
}

}  // namespace farpage
