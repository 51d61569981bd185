#include "chaos/processes/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/process/fork_program.h"
#include "base/unique_fd.h"

namespace farpage::processes {
namespace {

// Between fork and exec, where only calls that are safe in a signal handler are allowed.
[[noreturn]] void become(const char* program, char* const* words, int log, int network,
                         pid_t parent) {
  ::setpgid(0, 0);  // Ctrl-C is for the parent
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool moved = network < 0 || ::setns(network, CLONE_NEWNET) == 0;
  if (::getppid() == parent && moved && ::dup2(log, 1) >= 0 && ::dup2(log, 2) >= 0) {
    ::execv(program, words);
  }
  ::_exit(127);
}

}  // namespace

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string folders = fmt::format("{}:/usr/sbin:/sbin:", path != nullptr ? path : "");
  for (size_t end; (end = folders.find(':')) != std::string::npos; folders.erase(0, end + 1)) {
    std::string file = fmt::format("{}/{}", folders.substr(0, end), name);
    if (end > 0 && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

Result<Child> Child::start(const ChildOptions& options) {
  const UniqueFd log(::open(options.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.valid()) return fail_errno(errno, fmt::format("cannot write {}", options.log));
  std::vector<std::string> words = options.words;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::signal(SIGCHLD, SIG_DFL);  // ignored, as who started this may have had it, no end is told
  const pid_t parent = ::getpid();
  const pid_t pid = fork_program();
  if (pid == 0) {
    become(options.program.c_str(), arguments.data(), log.get(), options.network, parent);
  }
  if (pid < 0) return fail_errno(errno, fmt::format("cannot start {}", options.words[0]));
  return Child(pid);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), status_(std::exchange(other.status_, std::nullopt)) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this == &other) return *this;
  end();
  pid_ = std::exchange(other.pid_, -1);
  status_ = std::exchange(other.status_, std::nullopt);
  return *this;
}

Child::~Child() {
  end();
}

void Child::signal(int number) const {
  if (pid_ > 0 && !status_) ::kill(pid_, number);
}

std::optional<int> Child::ended() {
  int status = 0;
  if (pid_ > 0 && !status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_;
}

int Child::wait() {
  int status = 0;
  while (pid_ > 0 && !status_) {
    if (::waitpid(pid_, &status, 0) == pid_) status_ = status;
  }
  return status_.value_or(0);
}

void Child::end() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  wait();
}

Result<void> run_to_end(const ChildOptions& options) {
  auto child = Child::start(options);
  if (!child) return tl::unexpected(child.error());
  const int status = child->wait();
  if (status == 0) return {};
  std::ifstream log(options.log);
  const std::string said((std::istreambuf_iterator<char>(log)), {});
  return fail(Code::kSystem,
              fmt::format("{} {}: {}", fmt::join(options.words, " "), describe_end(status), said));
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  return fmt::format("ended with {}", WEXITSTATUS(status));
}

}  // namespace farpage::processes
