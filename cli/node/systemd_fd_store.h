#pragma once

#include <sys/types.h>

#include <deque>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace farpage {

// Files that a process gives to its starter, to have them again in its next life: the other end of
// sd_notify(3)'s FDSTORE=1, FDSTOREREMOVE=1 and FDNAME=. A file is held once under a name. One
// thread.
class SystemdFdStore {
 public:
  struct Held {
    std::string name;
    UniqueFd file;
  };

  // `path`: of the socket, in a folder that no other user may enter.
  static Result<SystemdFdStore> open(const std::string& path);

  const std::string& path() const { return path_; }
  // False once the socket was removed, or replaced by another thing: who cleans /tmp does that.
  bool is_reachable() const;
  // There from now on; what is held stays.
  Result<void> move_to(const std::string& path);
  int fd() const { return socket_.get(); }  // readable when there is something to receive
  // All that there is, without waiting for more.
  void receive();
  const std::vector<Held>& held() const { return held_; }

 private:
  bool receive_one();
  void apply(const std::string& message, std::deque<UniqueFd> files);

  std::string path_;
  UniqueFd socket_;
  dev_t device_ = 0;  // of the socket's file
  ino_t inode_ = 0;
  std::vector<Held> held_;
};

}  // namespace farpage
