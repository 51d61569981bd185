#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/stderr.h"
#include "cli/exit_code.h"
#include "cli/farpage/commands.h"
#include "cli/node/held_process.h"
#include "client/embedded/private_folder.h"

namespace farpage {
namespace {

constexpr int kExitNotFound = 127;  // of a command that cannot be run
constexpr int kPauseMs = 1'000;     // before a command that has failed is started again
constexpr int kLongestPauseMs = 30'000;

constexpr const char* kNotifySocket = "/notify";

// Signals to this process, by a descriptor.
class Signals {
 public:
  Signals() {
    sigset_t all;
    sigemptyset(&all);
    for (const int number : {SIGHUP, SIGTERM, SIGINT, SIGCHLD}) sigaddset(&all, number);
    ::signal(SIGCHLD, SIG_DFL);  // not ignored, as who started this may have had it
    FARPAGE_CHECK(::sigprocmask(SIG_BLOCK, &all, nullptr) == 0);
    fd_.reset(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
    FARPAGE_CHECK(fd_.valid());
  }
  int fd() const { return fd_.get(); }
  std::optional<int> next() const {
    signalfd_siginfo info = {};
    if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  UniqueFd fd_;
};

std::string describe(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("has ended with {}", WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  return fmt::format("was ended by signal {} ({})", number, ::strsignal(number));
}

// A command through its lives, and what it has given to be held meanwhile.
class Holder {
 public:
  Holder(std::vector<std::string> words, PrivateFolder folder, SystemdFdStore store,
         const Signals& signals)
      : words_(std::move(words)), store_(std::move(store)), signals_(signals) {
    folders_.push_back(std::move(folder));
  }

  // Until the command has ended for good; its exit code.
  Result<int> run() {
    while (true) {
      keep_reachable();
      const auto started = start();
      if (!started) return tl::unexpected(started.error());
      child_ = *started;
      replacing_ = false;
      const int status = wait_for_end();
      store_.receive();
      const bool by_itself = !ending_ && !replacing_;
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      const bool never_began = !started_before_ && (code == kExitUsage || code == kExitNotFound);
      if (ending_ || (by_itself && (code == kExitDone || never_began))) {
        return code;
      }
      started_before_ = true;
      if (by_itself) {
        write_stderr(
            fmt::format("farpage: {} {}: starting it again\n", words_[0], describe(status)));
        if (pause(kPauseMs); ending_) return code;
      }
    }
  }

 private:
  // The next life gets the held memory in any case; it has to give its own, too.
  void keep_reachable() {
    if (store_.is_reachable()) return;
    auto folder = PrivateFolder::create();
    const auto moved = !folder ? Result<void>(tl::unexpected(folder.error()))
                               : store_.move_to(folder->path() + kNotifySocket);
    if (folder) folders_.push_back(std::move(*folder));
    if (moved) return;
    write_stderr(
        fmt::format("farpage: {} has been removed, and {} cannot hand over its memory: "
                    "{}\n",
                    store_.path(), words_[0], moved.error().message));
  }

  // What is held waits for a process. Without any, who has asked for the first life is told.
  Result<pid_t> start() {
    for (int pause_ms = kPauseMs;; pause_ms = std::min(2 * pause_ms, kLongestPauseMs)) {
      auto started = start_held(words_, store_);
      if (started || !started_before_) return started;
      write_stderr(fmt::format("farpage: {}: {} is tried again in {} s, and its pages stay held\n",
                               started.error().message, words_[0], pause_ms / 1'000));
      if (pause(pause_ms); ending_) return started;
    }
  }

  int wait_for_end() {
    int status = 0;
    while (::waitpid(child_, &status, WNOHANG) != child_) pause(-1);
    child_ = 0;
    return status;
  }

  // For so long, or until a signal has come.
  void pause(int timeout_ms) {
    std::array<pollfd, 2> waits = {pollfd{signals_.fd(), POLLIN, 0},
                                   pollfd{store_.fd(), POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), timeout_ms) <= 0) return;
    store_.receive();
    while (const auto number = signals_.next()) {
      if (*number == SIGCHLD) continue;
      (*number == SIGHUP ? replacing_ : ending_) = true;
      if (child_ > 0) ::kill(child_, SIGTERM);
    }
  }

  const std::vector<std::string> words_;
  std::deque<PrivateFolder> folders_;
  SystemdFdStore store_;
  const Signals& signals_;
  pid_t child_ = 0;  // 0: there is none
  bool started_before_ = false;
  bool replacing_ = false;
  bool ending_ = false;
};

Result<int> hold(const std::vector<std::string>& words) {
  const Signals signals;  // first: none of them ends it before it has a command to pass them to
  auto folder = PrivateFolder::create();
  if (!folder) return tl::unexpected(folder.error());
  auto store = SystemdFdStore::open(folder->path() + kNotifySocket);
  if (!store) return tl::unexpected(store.error());
  return Holder(words, std::move(*folder), std::move(*store), signals).run();
}

}  // namespace

void add_hold_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "hold",
      "Runs a node and holds its pages: restarts the command with them after SIGHUP or a failure");
  auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *words, "Command to run, after --: farpage node …")->required();
  command->callback([words, &exit_code] {
    const Result<int> code = hold(*words);
    exit_code = code ? *code : report_error(code.error());
  });
}

}  // namespace farpage
