#include "client/embedded/user_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace farpage {

Result<std::string> make_user_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool is_named = runtime != nullptr && *runtime == '/';
  const std::string path =
      is_named ? fmt::format("{}/farpage", runtime) : fmt::format("/tmp/farpage-{}", ::geteuid());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail_errno(errno, fmt::format("cannot make the folder {} for the sockets of named nodes "
                                         "(choose another one with XDG_RUNTIME_DIR)",
                                         path));
  }
  // In /tmp anybody may have made it, or a link.
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return fail_errno(errno, "cannot look at " + path);
  if (S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & 077) == 0) {
    return path;
  }
  return fail(Code::kDenied,
              fmt::format("{} is not a folder that only this user may enter: remove it, or choose "
                          "another place with XDG_RUNTIME_DIR",
                          path));
}

}  // namespace farpage
