#include "base/process/closed_in_child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/unique_fd.h"

namespace farpage {
namespace {

// Each description of it has locks of its own.
UniqueFd open_again(const UniqueFd& file) {
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

UniqueFd make_file() {
  return UniqueFd(::memfd_create("farpage_test", MFD_CLOEXEC));
}

bool lock(const UniqueFd& file) {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

// Runs `meanwhile` beside the child of a fork, which has come back from it and does nothing but
// live.
void beside_a_child(const std::function<void()>& meanwhile) {
  int to_child[2];
  int from_child[2];
  ASSERT_EQ(::pipe2(to_child, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(from_child, O_CLOEXEC), 0);
  char byte = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(to_child[1]);
    const bool is_there = ::write(from_child[1], &byte, 1) == 1;
    ::_exit(is_there && ::read(to_child[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(to_child[0]);
  ::close(from_child[1]);
  ASSERT_EQ(::read(from_child[0], &byte, 1), 1);
  meanwhile();
  ::close(to_child[1]);
  ::close(from_child[0]);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

bool is_open_in_child(int fd) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::fcntl(fd, F_GETFD) >= 0 ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST(ClosedInChild, LockEndsWithItsProcessAlthoughAChildLives) {
  const UniqueFd file = make_file();
  UniqueFd holder = open_again(file);
  const ClosedInChild closed(holder.get());
  ASSERT_TRUE(lock(holder));
  beside_a_child([&] {
    EXPECT_FALSE(lock(open_again(file)));  // this process has it
    holder.reset();
    EXPECT_TRUE(lock(open_again(file)));
  });
}

// The kernel does keep it: without this the test above says nothing.
TEST(ClosedInChild, LockOfAnotherDescriptorLivesOnInTheChild) {
  const UniqueFd file = make_file();
  UniqueFd holder = open_again(file);
  ASSERT_TRUE(lock(holder));
  beside_a_child([&] {
    holder.reset();
    EXPECT_FALSE(lock(open_again(file)));
  });
}

TEST(ClosedInChild, MovesAndEnds) {
  const UniqueFd file = make_file();
  {
    ClosedInChild first(file.get());
    EXPECT_FALSE(is_open_in_child(file.get()));
    ClosedInChild second(std::move(first));
    EXPECT_FALSE(is_open_in_child(file.get()));
    ClosedInChild third;
    third = std::move(second);
    EXPECT_FALSE(is_open_in_child(file.get()));
  }
  EXPECT_TRUE(is_open_in_child(file.get()));
}

TEST(ClosedInChild, AnotherFileUnderTheSameNumberStaysOpen) {
  UniqueFd file = make_file();
  const int number = file.get();
  const ClosedInChild closed(number);
  const UniqueFd other = make_file();
  ASSERT_EQ(::dup2(other.get(), number), number);  // which closes the first
  EXPECT_TRUE(is_open_in_child(number));
}

TEST(ClosedInChild, NoDescriptorIsNothing) {
  const ClosedInChild closed(-1);
  EXPECT_TRUE(is_open_in_child(STDERR_FILENO));
}

}  // namespace
}  // namespace farpage
