#include "cli/node/held_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/stderr.h"
#include "cli/standard_streams.h"

namespace farpage {
namespace {

constexpr int kFirstFile = 3;  // sd_listen_fds(3)
constexpr int kNotFound = 127;

[[noreturn]] void become(const std::vector<std::string>& words, const SystemdFdStore& store,
                         pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kNotFound);  // it ended before that
  restore_stream_signals();
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  // First out of the way of where they are to be.
  const int count = static_cast<int>(store.held().size());
  std::vector<int> files;
  std::vector<std::string> names;
  for (const SystemdFdStore::Held& held : store.held()) {
    files.push_back(::fcntl(held.file.get(), F_DUPFD_CLOEXEC, kFirstFile + count));
    names.push_back(held.name);
  }
  for (int i = 0; i < count; ++i) ::dup2(files[static_cast<size_t>(i)], kFirstFile + i);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", std::to_string(count).c_str(), 1);
  ::setenv("LISTEN_FDNAMES", fmt::format("{}", fmt::join(names, ":")).c_str(), 1);
  ::setenv("NOTIFY_SOCKET", store.path().c_str(), 1);
  // Of who started this process, whom that socket does not reach.
  ::unsetenv("WATCHDOG_USEC");
  ::unsetenv("WATCHDOG_PID");

  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  write_stderr(fmt::format("farpage: cannot run {}: {}\n", words[0], std::strerror(errno)));
  ::_exit(kNotFound);
}

}  // namespace

Result<pid_t> start_held(const std::vector<std::string>& words, const SystemdFdStore& store) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become(words, store, parent);
  if (child < 0) return fail_errno(errno, "cannot start a process");
  return child;
}

}  // namespace farpage
