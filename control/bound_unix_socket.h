#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "base/process/closed_in_child.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "net/socket_rights.h"

namespace farpage {

// Gives a socket's file of this user its rights; nothing else that stands at the path by then, and
// nothing that a link there leads to.
Result<void> give_socket(const std::string& path, const SocketRights& rights);

// A Unix socket's path that is taken: the socket listens, and whoever connects waits to be
// accepted. Its file goes with this object.
class BoundUnixSocket {
 public:
  // Refuses a path on which a process listens; takes over a socket on which no process listens any
  // more.
  static Result<BoundUnixSocket> bind(const std::string& path, const SocketRights& rights = {});
  BoundUnixSocket(BoundUnixSocket&& other) noexcept;
  BoundUnixSocket& operator=(BoundUnixSocket&& other) = delete;
  ~BoundUnixSocket();

  // To accept from: once.
  UniqueFd take_fd() { return std::move(fd_); }

 private:
  BoundUnixSocket(UniqueFd fd, std::string path, ino_t inode)
      : fd_(std::move(fd)), closed_in_child_(fd_.get()), path_(std::move(path)), inode_(inode) {}

  UniqueFd fd_;
  ClosedInChild closed_in_child_;
  std::string path_;  // empty: moved away
  ino_t inode_;
};

}  // namespace farpage
