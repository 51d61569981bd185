#include "net/secrets/file_rights.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace farpage {
namespace {

constexpr size_t kMostBytes = kMiB;
constexpr size_t kNameBytes = 4096;  // of what getpwuid_r tells

std::string name_of_user(uid_t user) {
  passwd entry = {};
  passwd* found = nullptr;
  std::vector<char> text(kNameBytes);
  if (::getpwuid_r(user, &entry, text.data(), text.size(), &found) != 0 || found == nullptr) {
    return std::to_string(user);
  }
  return found->pw_name;
}

std::string name_of_group(gid_t group) {
  ::group entry = {};
  ::group* found = nullptr;
  std::vector<char> text(kNameBytes);
  if (::getgrgid_r(group, &entry, text.data(), text.size(), &found) != 0 || found == nullptr) {
    return std::to_string(group);
  }
  return found->gr_name;
}

std::string rights_of(const struct stat& status) {
  return fmt::format("{}:{}, mode {:04o}", name_of_user(status.st_uid),
                     name_of_group(status.st_gid), status.st_mode & 07777);
}

std::string who_may_not(const std::string& path) {
  const std::string user = name_of_user(::geteuid());
  if (const std::string folder = closed_folder(path); !folder.empty()) {
    return fmt::format(
        "the folder '{}' ({}) is closed to the user '{}', as whom this process runs: run 'chmod "
        "o+x {}', or put the file elsewhere",
        folder, describe_rights(folder), user, folder);
  }
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return "check the rights of the file and its folders";
  if (status.st_uid == ::geteuid()) return fmt::format("run 'chmod 600 {}'", path);
  return fmt::format(
      "the file is {}, and this process runs as the user '{}': run 'chown {} {}', or let root own "
      "it and a group of this process read it: 'chown root:{} {} && chmod 640 {}' (in Kubernetes: "
      "securityContext.fsGroup, and defaultMode: 0440 of the volume)",
      rights_of(status), user, user, path, name_of_group(::getegid()), path, path);
}

tl::unexpected<Error> refuse(const std::string& path, const std::string& what,
                             const std::string& missing, int error) {
  std::string advice = "look at the file";
  if (error == ENOENT || error == ENOTDIR) advice = missing;
  if (error == EACCES || error == EPERM) advice = who_may_not(path);
  if (error == EISDIR) advice = "this is a folder: name the file in it";
  return fail(Code::kInvalid, fmt::format("cannot read {} in '{}' ({}): {}", what, path,
                                          std::strerror(error), advice));
}

// Without blocking, for a pipe may stand there, though a file did a moment ago.
UniqueFd open_to_read(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

bool wait_to_read(int fd, uint64_t deadline_ns) {
  while (true) {
    const uint64_t now = boottime_clock().now_ns();
    const uint64_t left_ns = deadline_ns > now ? deadline_ns - now : 0;
    pollfd readable = {fd, POLLIN, 0};
    const int ready = ::poll(&readable, 1, static_cast<int>(left_ns / kMillisecond));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

Result<std::string> read_to_end(const UniqueFd& file, const std::string& path,
                                const std::string& what, const std::string& missing,
                                uint64_t patience_ns) {
  const uint64_t deadline_ns = boottime_clock().now_ns() + patience_ns;
  std::string text;
  std::array<char, 4096> part;
  while (true) {
    if (!wait_to_read(file.get(), deadline_ns)) {
      return fail(Code::kInvalid,
                  fmt::format("cannot read {} in '{}': it is a pipe, and nobody has written all of "
                              "it within {:g} s: name a file",
                              what, path, static_cast<double>(patience_ns) / kSecond));
    }
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return refuse(path, what, missing, errno);
    if (count == 0) return text;
    text.append(part.data(), static_cast<size_t>(count));
    if (text.size() > kMostBytes) {
      return fail(Code::kInvalid,
                  fmt::format("cannot read {} in '{}': it is longer than {}; is it the right file?",
                              what, path, format_bytes(kMostBytes)));
    }
  }
}

}  // namespace

std::string describe_rights(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? rights_of(status) : "not to be looked at";
}

std::string closed_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::path at;
  for (const auto& part : std::filesystem::absolute(path, error).parent_path()) {
    at /= part;
    if (::access(at.c_str(), X_OK) != 0 && errno == EACCES) return at.string();
  }
  return "";
}

Result<void> judge_rights(const struct stat& status, uid_t user, const std::string& path,
                          const std::string& what) {
  const mode_t others = status.st_mode & (S_IRWXG | S_IRWXO);
  const bool is_roots = status.st_uid == 0;
  if (others == 0 || (is_roots && others == S_IRGRP)) return {};
  std::string advice = fmt::format("run 'chmod 600 {}'", path);
  if (is_roots && user != 0) {
    advice = fmt::format(
        "run 'chmod 640 {}' as root, with a group of this process (in Kubernetes: "
        "securityContext.fsGroup, and defaultMode: 0440 of the volume)",
        path);
  } else if (status.st_uid != user && user != 0) {
    const std::string own = name_of_user(user);
    advice = fmt::format(
        "it is {}, and only of root's files a group may read some: run 'chown {} {} && chmod 600 "
        "{}', or 'chown root {} && chmod 640 {}'",
        rights_of(status), own, path, path, path, path);
  }
  return fail(Code::kDenied,
              fmt::format("users other than its owner may use {} in '{}': {}", what, path, advice));
}

Result<std::string> read_small_file(const std::string& path, const std::string& what,
                                    const std::string& missing, uint64_t patience_ns) {
  const UniqueFd file = open_to_read(path);
  if (!file.valid()) return refuse(path, what, missing, errno);
  return read_to_end(file, path, what, missing, patience_ns);
}

Result<std::string> read_private_file(const std::string& path, const std::string& what,
                                      const std::string& missing) {
  const UniqueFd file = open_to_read(path);
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    return refuse(path, what, missing, errno);
  }
  return judge_rights(status, ::geteuid(), path, what).and_then([&] {
    return read_to_end(file, path, what, missing, kPipePatienceNs);
  });
}

}  // namespace farpage
