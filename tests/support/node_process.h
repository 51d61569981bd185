#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace farpage {

// `farpage node` in a process of its own, which ends with this object and with the test.
class NodeProcess {
 public:
  NodeProcess(std::string program, std::vector<std::string> settings)
      : program_(std::move(program)), settings_(std::move(settings)) {
    start();
  }
  ~NodeProcess() { kill(); }

  std::string socket() const { return dir_ / "node.sock"; }

  // Returns once it serves.
  void start() {
    std::vector<std::string> words = {program_, "node",    "--listen",
                                      socket(), "--state", dir_ / "node.state"};
    words.insert(words.end(), settings_.begin(), settings_.end());
    std::array<int, 2> ends = {};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd ready(ends[0]);
    UniqueFd tell(ends[1]);
    words.insert(words.end(), {"--ready-fd", std::to_string(tell.get())});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::fcntl(tell.get(), F_SETFD, 0);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ASSERT_GT(pid_, 0);
    tell.reset();
    std::string said;
    char byte = 0;
    while (!said.ends_with('\n') && ::read(ready.get(), &byte, 1) == 1) said += byte;
    ASSERT_TRUE(said.starts_with("ready ")) << said;
  }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }

  // Returns once every thread of it stands still.
  void stop() {
    ASSERT_EQ(::kill(pid_, SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  void go_on() { ASSERT_EQ(::kill(pid_, SIGCONT), 0); }

 private:
  TempDir dir_;
  std::string program_;
  std::vector<std::string> settings_;
  pid_t pid_ = -1;
};

}  // namespace farpage
