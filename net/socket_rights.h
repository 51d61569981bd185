#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/status.h"

namespace farpage {

// The rights to connect to a Unix socket, which are the rights to write to its file.
struct SocketRights {
  mode_t mode = 0600;
  std::optional<gid_t> group = {};  // nothing: the one that the process has

  // `mode`: "0660"; empty: 0600, or 0660 where a group is given. `group`: a name or a number, which
  // has to be known here. The errors name node.socket_mode and node.socket_group.
  static Result<SocketRights> parse(const std::string& mode, const std::string& group);
};

// Advice for a user who may not connect.
std::string advise_on_denied_socket(const std::string& path);

}  // namespace farpage
