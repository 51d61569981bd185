#include "base/process/fork_program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "base/unique_fd.h"

namespace farpage {
namespace {

constexpr int kRounds = 200;
constexpr int kLongestEndMs = 100'000;

// Of this process and of each child of it, until that is another program.
std::atomic<int> heard_fd{-1};

void note(int) {
  [[maybe_unused]] const ssize_t count = ::write(heard_fd.load(), "x", 1);
}

// SIGTERM is noted, as by a server that ends in good order.
class ForkProgramTest : public testing::Test {
 protected:
  ForkProgramTest() {
    std::array<int, 2> ends = {};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    heard_.reset(ends[0]);
    noted_.reset(ends[1]);
    heard_fd.store(noted_.get());
    struct sigaction action = {};
    action.sa_handler = note;
    ::sigaction(SIGTERM, &action, &before_);
  }
  ~ForkProgramTest() override { ::sigaction(SIGTERM, &before_, nullptr); }

  static pid_t start_sleep() {
    const pid_t child = fork_program();
    if (child == 0) {
      ::execl("/bin/sleep", "sleep", "1000", nullptr);
      ::_exit(127);
    }
    return child;
  }
  // How it ended; SIGKILL: not by itself.
  static int signal_that_ended(pid_t child) {
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    pollfd ended = {process.get(), POLLIN, 0};
    if (::poll(&ended, 1, kLongestEndMs) != 1) ::kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  bool is_noted() const {
    char byte = 0;
    return ::read(heard_.get(), &byte, 1) == 1;
  }

 private:
  UniqueFd heard_;
  UniqueFd noted_;
  struct sigaction before_ = {};
};

TEST_F(ForkProgramTest, SignalThatComesBeforeTheProgramEndsIt) {
  for (int i = 0; i < kRounds; ++i) {
    const pid_t child = start_sleep();
    ASSERT_GT(child, 0);
    ::kill(child, SIGTERM);
    ASSERT_EQ(signal_that_ended(child), SIGTERM) << "round " << i;
    ASSERT_FALSE(is_noted()) << "round " << i;
  }
}

TEST_F(ForkProgramTest, HandlersOfThisProcessStay) {
  const pid_t child = start_sleep();
  ASSERT_GT(child, 0);
  ::raise(SIGTERM);
  EXPECT_TRUE(is_noted());
  ::kill(child, SIGKILL);
  EXPECT_EQ(signal_that_ended(child), SIGKILL);
}

}  // namespace
}  // namespace farpage
