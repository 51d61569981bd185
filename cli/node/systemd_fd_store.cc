#include "cli/node/systemd_fd_store.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "cli/client/descriptors.h"
#include "net/passed_descriptors.h"

namespace farpage {
namespace {

constexpr size_t kMostHeld = 64;

}  // namespace

Result<SystemdFdStore> SystemdFdStore::open(const std::string& path) {
  SystemdFdStore store;
  if (auto moved = store.move_to(path); !moved) return tl::unexpected(moved.error());
  return store;
}

Result<void> SystemdFdStore::move_to(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(Code::kInvalid,
                fmt::format("{} is too long for a socket: choose another TMPDIR", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  struct stat file = {};
  if (!socket.valid() ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::lstat(path.c_str(), &file) != 0) {
    return fail_errno(errno, "cannot listen on " + path);
  }
  socket_ = std::move(socket);
  path_ = path;
  device_ = file.st_dev;
  inode_ = file.st_ino;
  return {};
}

bool SystemdFdStore::is_reachable() const {
  struct stat file = {};
  return ::lstat(path_.c_str(), &file) == 0 && file.st_dev == device_ && file.st_ino == inode_;
}

void SystemdFdStore::receive() {
  while (receive_one()) {
  }
}

bool SystemdFdStore::receive_one() {
  std::array<char, 4096> text;
  const iovec bytes = {text.data(), text.size()};
  std::deque<UniqueFd> files;
  const ssize_t received = receive_with_descriptors(socket_.get(), {&bytes, 1}, files);
  if (received < 0) return errno == EINTR;
  apply({text.data(), static_cast<size_t>(received)}, std::move(files));
  return true;
}

void SystemdFdStore::apply(const std::string& message, std::deque<UniqueFd> files) {
  bool stores = false;
  bool removes = false;
  std::string name = "stored";
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) {
    stores |= line == "FDSTORE=1";
    removes |= line == "FDSTOREREMOVE=1";
    if (line.starts_with("FDNAME=")) name = line.substr(std::strlen("FDNAME="));
  }
  // The names travel with colons between them.
  if (name.find(':') != std::string::npos) return;
  if (removes) std::erase_if(held_, [&](const Held& held) { return held.name == name; });
  if (!stores) return;
  for (UniqueFd& file : files) {
    const bool is_held = std::ranges::any_of(held_, [&](const Held& held) {
      return held.name == name && is_same_file(held.file, file);
    });
    if (!is_held && held_.size() < kMostHeld) held_.push_back({name, std::move(file)});
  }
}

}  // namespace farpage
