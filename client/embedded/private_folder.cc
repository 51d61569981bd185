#include "client/embedded/private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

namespace farpage {
namespace {

constexpr std::string_view kPrefix = "farpage-";
// In a folder that is to go with its process, and locked as long as that runs: who gets the lock
// has found what a killed one has left.
constexpr const char* kMark = "/removed-with-its-process";

// That it is there and locked is one step.
UniqueFd mark(const std::string& folder) {
  const std::string before = folder + kMark + ".new";
  UniqueFd file(::open(before.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const bool is_locked = file.valid() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  if (is_locked) ::rename(before.c_str(), (folder + kMark).c_str());
  return file;
}

// Anybody may have made the folder, with a pipe in the place of the mark.
bool is_abandoned(const std::string& folder) {
  const UniqueFd file(
      ::open((folder + kMark).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  return file.valid() && ::fstat(file.get(), &status) == 0 && status.st_uid == ::geteuid() &&
         ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

void remove_with_all(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

void remove_abandoned(const std::string& base) {
  std::error_code error;
  std::vector<std::string> found;
  for (std::filesystem::directory_iterator entry(base, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kPrefix)) found.push_back(entry->path());
  }
  for (const std::string& path : found) {
    if (is_abandoned(path)) remove_with_all(path);
  }
}

}  // namespace

Result<PrivateFolder> PrivateFolder::create() {
  const char* named = std::getenv("TMPDIR");
  const std::string base = named != nullptr && *named != '\0' ? named : "/tmp";
  remove_abandoned(base);
  std::string path = fmt::format("{}/{}XXXXXX", base, kPrefix);
  if (::mkdtemp(path.data()) == nullptr) {
    return fail_errno(
        errno, fmt::format("cannot make a folder {} (choose another one with TMPDIR)", path));
  }
  UniqueFd lock = mark(path);
  return PrivateFolder(std::move(path), std::move(lock));
}

PrivateFolder::PrivateFolder(PrivateFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")),
      lock_(std::move(other.lock_)),
      closed_in_child_(std::move(other.closed_in_child_)) {}

PrivateFolder::~PrivateFolder() {
  if (!path_.empty()) remove_with_all(path_);
}

std::string PrivateFolder::keep() {
  ::unlink((path_ + kMark).c_str());
  return std::exchange(path_, "");
}

}  // namespace farpage
