#include "control/bound_unix_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "net/address/unix_path.h"

namespace farpage {
namespace {

constexpr auto kLockPause = std::chrono::milliseconds(10);
constexpr int kLockAttempts = 200;

// A node removes the file in the way only while no process answers behind it, and only while it
// holds the lock on its folder, so that two nodes that start at once cannot take each other's
// socket for a dead one.
class BindLock {
 public:
  static Result<BindLock> take(const std::string& path) {
    const std::string folder = std::filesystem::absolute(path).parent_path().string();
    BindLock lock;
    lock.fd_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!lock.fd_.valid()) {
      const char* advice = errno == ENOENT || errno == ENOTDIR ? ": make it first" : "";
      return fail_errno(errno, fmt::format("cannot listen in the folder {}{}", folder, advice));
    }
    for (int attempt = 0; ::flock(lock.fd_.get(), LOCK_EX | LOCK_NB) != 0; ++attempt) {
      if (attempt == kLockAttempts) {
        return fail(
            Code::kUnavailable,
            fmt::format("another process keeps the folder {} locked: choose another one", folder));
      }
      std::this_thread::sleep_for(kLockPause);
    }
    lock.closed_in_child_ = ClosedInChild(lock.fd_.get());
    return lock;
  }

 private:
  UniqueFd fd_;
  ClosedInChild closed_in_child_;
};

Result<void> clear_stale_socket(const std::string& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return fail(Code::kExists,
                fmt::format("{} exists and is not a socket: choose another path", path));
  }
  int error = 0;
  (void)connect_unix(path, error);
  if (error == EACCES || error == EPERM) {
    return fail(
        Code::kDenied,
        fmt::format("a socket of another user is at {}, and {}. Or choose another path with "
                    "--listen",
                    path, advise_on_denied_socket(path)));
  }
  if (error == EMFILE || error == ENFILE) {
    return fail_errno(error, fmt::format("cannot ask whether a node listens on {}", path));
  }
  if (error != ECONNREFUSED) {
    return fail(Code::kExists, fmt::format("another node listens on {}: stop it, or choose another "
                                           "path with --listen",
                                           path));
  }
  ::unlink(path.c_str());
  return {};
}

}  // namespace

Result<void> give_socket(const std::string& path, const SocketRights& rights) {
  const UniqueFd file(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid() && (errno == EMFILE || errno == ENFILE)) {
    return fail_errno(errno, fmt::format("cannot look at the socket {}", path));
  }
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISSOCK(status.st_mode) ||
      status.st_uid != ::geteuid() || status.st_nlink != 1) {
    return fail(Code::kDenied,
                fmt::format("somebody has put something else in the place of the socket {}: choose "
                            "a folder that this user alone may write to",
                            path));
  }
  constexpr uid_t kSameOwner = static_cast<uid_t>(-1);
  if (rights.group && ::fchownat(file.get(), "", kSameOwner, *rights.group, AT_EMPTY_PATH) != 0) {
    const char* advice =
        errno == EPERM ? ": run the node as a member of that group, or choose another" : "";
    return fail(Code::kDenied,
                fmt::format("cannot give the socket {} to the group {} (node.socket_group): {}{}",
                            path, *rights.group, std::strerror(errno), advice));
  }
  // fchmod() takes no such descriptor.
  if (::chmod(fmt::format("/proc/self/fd/{}", file.get()).c_str(), rights.mode) != 0) {
    return fail_errno(errno, fmt::format("cannot set the rights of the socket {}", path));
  }
  return {};
}

namespace {

// Whoever may connect may store and read pages, so that its rights come before that.
Result<UniqueFd> bind_to(const std::string& path, const SocketRights& rights) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  if (!fd.valid() ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail_errno(errno, fmt::format("cannot listen on {}", path));
  }
  auto given = give_socket(path, rights);
  if (given && ::listen(fd.get(), SOMAXCONN) == 0) return fd;
  const int error = errno;
  ::unlink(path.c_str());
  if (!given) return tl::unexpected(given.error());
  return fail_errno(error, fmt::format("cannot listen on {}", path));
}

}  // namespace

Result<BoundUnixSocket> BoundUnixSocket::bind(const std::string& path, const SocketRights& rights) {
  if (auto valid = check_unix_path(path); !valid) return tl::unexpected(valid.error());
  auto lock = BindLock::take(path);
  if (!lock) return tl::unexpected(lock.error());
  if (auto cleared = clear_stale_socket(path); !cleared) return tl::unexpected(cleared.error());
  auto fd = bind_to(path, rights);
  if (!fd) return tl::unexpected(fd.error());
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) {
    return fail_errno(errno, fmt::format("cannot listen on {}", path));
  }
  return BoundUnixSocket(std::move(*fd), path, status.st_ino);
}

BoundUnixSocket::BoundUnixSocket(BoundUnixSocket&& other) noexcept
    : fd_(std::move(other.fd_)),
      closed_in_child_(std::move(other.closed_in_child_)),
      path_(std::exchange(other.path_, "")),
      inode_(other.inode_) {}

BoundUnixSocket::~BoundUnixSocket() {
  if (path_.empty()) return;
  auto lock = BindLock::take(path_);
  struct stat status;
  if (::lstat(path_.c_str(), &status) == 0 && status.st_ino == inode_) ::unlink(path_.c_str());
}

}  // namespace farpage
