#include "chaos/processes/child.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/temp_dir.h"

namespace farpage::processes {
namespace {

class ChildTest : public testing::Test {
 protected:
  ChildOptions shell(const std::string& script) {
    return {"/bin/sh", {"sh", "-c", script}, dir_ / "log"};
  }
  // The first line of its log, once it is there.
  std::string first_line() {
    for (std::string line;; std::this_thread::yield()) {
      std::ifstream log(dir_ / "log");
      if (std::getline(log, line) && !log.eof()) return line;
    }
  }

  TempDir dir_;
};

TEST_F(ChildTest, TellsHowItEnded) {
  auto child = Child::start(shell("exit 3"));
  ASSERT_TRUE(child);
  EXPECT_EQ(describe_end(child->wait()), "ended with 3");
  auto killed = Child::start(shell("kill -9 $$"));
  ASSERT_TRUE(killed);
  EXPECT_EQ(describe_end(killed->wait()), "killed by signal 9");
}

TEST_F(ChildTest, TellsHowItEndedWhereEndsWereIgnored) {
  ::signal(SIGCHLD, SIG_IGN);
  auto child = Child::start(shell("exit 3"));
  ASSERT_TRUE(child);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!child->ended() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  ASSERT_TRUE(child->ended());
  EXPECT_EQ(describe_end(*child->ended()), "ended with 3");
}

TEST_F(ChildTest, EndsWithItsObject) {
  pid_t pid = 0;
  {
    auto child = Child::start(shell("echo $$; exec sleep 1000"));
    ASSERT_TRUE(child);
    pid = std::stoi(first_line());
    EXPECT_FALSE(child->ended());
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_F(ChildTest, DiesWithTheThreadThatStartedIt) {
  std::optional<Child> child;
  std::thread([&] {
    child.emplace(std::move(*Child::start(shell("echo $$; exec sleep 1000"))));
    first_line();
  }).join();
  EXPECT_EQ(describe_end(child->wait()), "killed by signal 9");
}

TEST_F(ChildTest, WordsOfWhatFailedAreTheError) {
  EXPECT_TRUE(run_to_end(shell("true")));
  const Result<void> failed = run_to_end(shell("echo no such thing; false"));
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("ended with 1: no such thing"), std::string::npos)
      << failed.error().message;
}

TEST(FindProgram, FindsWhatIsThereAndNothingElse) {
  EXPECT_TRUE(find_program("sh").ends_with("/sh"));
  EXPECT_EQ(find_program("no-such-program-here"), "");
}

}  // namespace
}  // namespace farpage::processes
