#include "cli/client/shell_command.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace farpage {
namespace {

// The process's own, but for the variables.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_new = std::ranges::any_of(
        variables, [name](const auto& variable) { return variable.first == name; });
    if (!is_new) all.emplace_back(text);
  }
  for (const auto& [name, value] : variables) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

Result<pid_t> start(const std::string& command, std::vector<std::string> environment) {
  std::vector<char*> variables;
  for (std::string& variable : environment) variables.push_back(variable.data());
  variables.push_back(nullptr);
  std::array<std::string, 3> words = {"sh", "-c", command};
  std::array<char*, 4> arguments = {words[0].data(), words[1].data(), words[2].data(), nullptr};

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  ::posix_spawnattr_init(&attributes);
  sigset_t ignored;  // by this process, for what it writes itself
  ::sigemptyset(&ignored);
  ::sigaddset(&ignored, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &ignored);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = -1;
  const int failed =
      ::posix_spawnp(&child, "sh", &files, &attributes, arguments.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) return fail_errno(failed, "cannot start sh");
  return child;
}

Result<void> judge(int status, const std::string& command) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const std::string how = WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                            : fmt::format("signal {}", WTERMSIG(status));
  return fail(Code::kUnavailable, fmt::format("'{}' ended with {}", command, how));
}

}  // namespace

Result<void> run_shell(const std::string& command,
                       const std::vector<std::pair<std::string, std::string>>& variables,
                       uint64_t deadline_ns, const Interrupts& interrupts) {
  const auto child = start(command, environment_with(variables));
  if (!child) return tl::unexpected(child.error());
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, *child, 0)));
  std::array<pollfd, 2> ends = {pollfd{process.get(), POLLIN, 0},
                                pollfd{interrupts.fd(), POLLIN, 0}};
  const uint64_t now = boottime_clock().now_ns();
  const uint64_t left_ms = deadline_ns > now ? (deadline_ns - now) / kMillisecond : 0;
  ::poll(ends.data(), ends.size(), static_cast<int>(std::min<uint64_t>(left_ms, INT32_MAX)));
  int status = 0;
  const bool has_ended = ::waitpid(*child, &status, WNOHANG) == *child;
  if (!has_ended) ::kill(*child, SIGTERM);
  if (interrupts.interrupted()) return fail(Code::kAborted, "interrupted");
  if (has_ended) return judge(status, command);
  return fail(Code::kTimeout, fmt::format("'{}' has not ended in time", command));
}

}  // namespace farpage
