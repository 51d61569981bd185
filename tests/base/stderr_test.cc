#include "base/stderr.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

// As long as it lives, standard error is something else, or closed.
class StderrIs {
 public:
  explicit StderrIs(int fd) : before_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
    if (fd < 0) {
      ::close(STDERR_FILENO);
    } else {
      ::dup2(fd, STDERR_FILENO);
    }
  }
  ~StderrIs() { ::dup2(before_.get(), STDERR_FILENO); }
  StderrIs(const StderrIs&) = delete;
  StderrIs& operator=(const StderrIs&) = delete;

 private:
  const UniqueFd before_;
};

class Pipe {
 public:
  Pipe() {
    std::array<int, 2> ends = {-1, -1};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    read_.reset(ends[0]);
    write_.reset(ends[1]);
    ::fcntl(read_.get(), F_SETFL, O_NONBLOCK);
  }
  int write_end() const { return write_.get(); }
  void leave() { read_.reset(); }
  void fill() const {
    ::fcntl(write_.get(), F_SETFL, O_NONBLOCK);
    const std::array<char, 4096> part = {};
    while (::write(write_.get(), part.data(), part.size()) > 0) {
    }
    ::fcntl(write_.get(), F_SETFL, 0);
  }
  std::string read_all() const {
    std::string text;
    std::array<char, 4096> part;
    for (ssize_t count; (count = ::read(read_.get(), part.data(), part.size())) > 0;) {
      text.append(part.data(), static_cast<size_t>(count));
    }
    return text;
  }

 private:
  UniqueFd read_;
  UniqueFd write_;
};

std::string what_is_said_next() {
  const Pipe pipe;
  const StderrIs here(pipe.write_end());
  write_stderr("next\n");
  return pipe.read_all();
}

class StderrTest : public testing::Test {
 protected:
  void SetUp() override {
    what_is_said_next();  // of what an earlier test has lost
    ASSERT_EQ(what_is_said_next(), "next\n");
    sigaction(SIGPIPE, &kDefault, &pipe_before_);
    sigaction(SIGXFSZ, &kDefault, &size_before_);
  }
  void TearDown() override {
    sigaction(SIGPIPE, &pipe_before_, nullptr);
    sigaction(SIGXFSZ, &size_before_, nullptr);
  }

  static const struct sigaction kDefault;
  struct sigaction pipe_before_ = {};
  struct sigaction size_before_ = {};
};
const struct sigaction StderrTest::kDefault = {};

TEST_F(StderrTest, WhatIsLostOnAFullDiskIsCounted) {
  {
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    const StderrIs here(full.get());
    write_stderr("first\n");
    log_warning("second");
  }
  EXPECT_EQ(what_is_said_next(),
            "\nfarpage: 2 messages before this one could not be written\nnext\n");
  EXPECT_EQ(what_is_said_next(), "next\n") << "said once";
}

TEST_F(StderrTest, ItMayBeClosed) {
  {
    const StderrIs here(-1);
    write_stderr("lost\n");
    log_warning("lost");
  }
  EXPECT_THAT(what_is_said_next(), HasSubstr("2 messages"));
}

TEST_F(StderrTest, AReaderThatHasGoneEndsNobody) {
  {
    Pipe pipe;
    pipe.leave();
    const StderrIs here(pipe.write_end());
    write_stderr("lost\n");
  }
  sigset_t pending = {};
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0) << "it would end the process once it is unblocked";
  EXPECT_THAT(what_is_said_next(), HasSubstr("1 messages"));
}

TEST_F(StderrTest, AFileThatMayNotGrowEndsNobody) {
  const TempDir folder;
  {
    const UniqueFd file(::open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    rlimit before = {};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit none = {0, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
    {
      const StderrIs here(file.get());
      write_stderr("lost\n");
    }
    ::setrlimit(RLIMIT_FSIZE, &before);
  }
  EXPECT_THAT(what_is_said_next(), HasSubstr("1 messages"));
}

// One that blocked here would hold up a node's thread for as long as a terminal is stopped.
TEST_F(StderrTest, AReaderThatDoesNotReadHoldsNobodyUp) {
  const Pipe pipe;
  pipe.fill();
  const StderrIs here(pipe.write_end());
  const uint64_t start = boottime_clock().now_ns();
  for (int i = 0; i < 100; ++i) write_stderr("lost\n");
  EXPECT_LT(boottime_clock().now_ns() - start, 5 * kSecond) << "waited for once, and not 100 times";
  pipe.read_all();
  write_stderr("it reads again\n");
  EXPECT_THAT(pipe.read_all(), EndsWith("100 messages before this one could not be written\n"
                                        "it reads again\n"));
}

// A terminal says that it is writable while it has room for a part of a line. So does a pipe that
// another process fills before the write.
TEST_F(StderrTest, RoomForAPartOfTheTextHoldsNobodyUp) {
  const UniqueFd reader(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!reader.valid() || ::grantpt(reader.get()) != 0 || ::unlockpt(reader.get()) != 0) {
    GTEST_SKIP() << "hardware: there is no pseudo terminal here";
  }
  const char* name = ::ptsname(reader.get());
  const UniqueFd terminal(::open(name, O_WRONLY | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal.valid());
  const StderrIs here(terminal.get());
  const uint64_t start = boottime_clock().now_ns();
  for (int i = 0; i < 100; ++i) write_stderr(std::string(4'000, 'x'));
  EXPECT_LT(boottime_clock().now_ns() - start, 5 * kSecond);
}

TEST_F(StderrTest, ASocketThatIsFullHoldsNobodyUp) {
  std::array<int, 2> ends = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  const StderrIs here(writer.get());
  const uint64_t start = boottime_clock().now_ns();
  for (int i = 0; i < 200; ++i) write_stderr(std::string(20'000, 'x'));
  EXPECT_LT(boottime_clock().now_ns() - start, 5 * kSecond);
}

TEST_F(StderrTest, AFailedCheckEndsItsProcessThoughNobodyReads) {
  const Pipe pipe;
  pipe.fill();
  const pid_t child = ::fork();
  if (child == 0) {
    const StderrIs here(pipe.write_end());
    FARPAGE_CHECK(child != 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST_F(StderrTest, ALongTextArrivesWhole) {
  const Pipe pipe;
  const StderrIs here(pipe.write_end());
  const std::string text(20'000, 'x');
  write_stderr(text);
  EXPECT_EQ(pipe.read_all(), text);
}

}  // namespace
}  // namespace farpage
