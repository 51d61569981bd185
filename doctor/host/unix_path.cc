#include "doctor/host/unix_path.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "net/address/unix_path.h"

namespace farpage::doctor {
namespace {

using Present = UnixPathFacts::Present;

Present look(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return Present::kNothing;
  if (!S_ISSOCK(status.st_mode)) return Present::kOtherFile;
  if (path.size() > kMaxUnixPathBytes) return Present::kOtherFile;
  int error = 0;
  (void)connect_unix(path, error);
  return error == ECONNREFUSED ? Present::kDeadSocket : Present::kLiveSocket;
}

}  // namespace

UnixPathFacts read_unix_path(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::absolute(path, ignored).parent_path();
  UnixPathFacts facts;
  facts.folder = folder.string();
  facts.is_folder = std::filesystem::is_directory(folder, ignored);
  facts.may_write = ::access(folder.c_str(), W_OK | X_OK) == 0;
  facts.present = look(path);
  while (!std::filesystem::exists(folder, ignored) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  facts.may_make_folder = ::access(folder.c_str(), W_OK | X_OK) == 0;
  return facts;
}

Finding check_unix_path(const UnixPathFacts& facts, const Wanted& wanted,
                        const Privileges& privileges) {
  const std::string& path = wanted.listen->path;
  const auto elsewhere = [&wanted](const std::string& other) {
    return fmt::format("{} --listen {}", wanted.node_command, shell_word(other));
  };
  Finding finding = {"listen", "unix path", Level::kProblem};
  if (path.size() > kMaxUnixPathBytes) {
    finding.text = fmt::format("{} has {} bytes, and a Unix socket's path takes {}", path,
                               path.size(), kMaxUnixPathBytes);
    finding.command = elsewhere("/tmp/farpage.sock");
  } else if (!facts.is_folder) {
    const std::string make = "mkdir -p " + shell_word(facts.folder);
    finding.text = fmt::format("there is no folder {}", facts.folder);
    finding.command =
        facts.may_make_folder
            ? make
            : privileges.as_root("install -d -o \"$(id -u)\" " + shell_word(facts.folder));
  } else if (!facts.may_write) {
    finding.text = fmt::format("this user may not write into the folder {}", facts.folder);
    finding.command = privileges.as_root("chown \"$(id -u)\" " + shell_word(facts.folder));
  } else if (facts.present == Present::kLiveSocket) {
    finding.text = fmt::format("another process listens on {}", path);
    finding.command = elsewhere(path + ".2");
  } else if (facts.present == Present::kOtherFile) {
    finding.text = fmt::format("{} exists and is not a socket", path);
    finding.command = elsewhere(path + ".sock");
  } else {
    finding.level = Level::kOk;
    finding.text = fmt::format("{} is free", path);
  }
  return finding;
}

}  // namespace farpage::doctor
