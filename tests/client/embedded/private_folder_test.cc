#include "client/embedded/private_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

class PrivateFolderTest : public testing::Test {
 protected:
  PrivateFolderTest() {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", (dir_ / "").c_str(), 1);
  }
  ~PrivateFolderTest() override {
    if (before_) {
      ::setenv("TMPDIR", before_->c_str(), 1);
    } else {
      ::unsetenv("TMPDIR");
    }
  }

  std::vector<std::string> folders() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "")) {
      all.push_back(entry.path());
    }
    return all;
  }
  // By a process that is killed then.
  static void leave_one() {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto folder = PrivateFolder::create();
      std::ofstream(folder->path() + "/log") << "a line";
      ::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }

  TempDir dir_;
  std::optional<std::string> before_;
};

TEST_F(PrivateFolderTest, GoesWithItsObject) {
  {
    const auto folder = PrivateFolder::create();
    ASSERT_TRUE(folder.has_value());
    std::ofstream(folder->path() + "/log") << "a line";
    EXPECT_EQ(folders().size(), 1u);
  }
  EXPECT_TRUE(folders().empty());
}

TEST_F(PrivateFolderTest, WhatAKilledProcessHasLeftGoesWithTheNextOne) {
  leave_one();
  const std::vector<std::string> left = folders();
  ASSERT_EQ(left.size(), 1u);
  const auto folder = PrivateFolder::create();
  ASSERT_TRUE(folder.has_value());
  EXPECT_FALSE(std::filesystem::exists(left[0]));
  EXPECT_TRUE(std::filesystem::exists(folder->path()));
}

TEST_F(PrivateFolderTest, OfOthersThoseInUseOrKeptStay) {
  const auto used = PrivateFolder::create();
  ASSERT_TRUE(used.has_value());
  const std::string kept = PrivateFolder::create()->keep();
  const std::string none_of_ours = dir_ / "farpage-abcdef";
  std::filesystem::create_directory(none_of_ours);
  const auto folder = PrivateFolder::create();
  ASSERT_TRUE(folder.has_value());
  for (const std::string& path : {used->path(), kept, none_of_ours}) {
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
  }
  EXPECT_TRUE(std::filesystem::is_empty(kept)) << "there is nothing for its owner to wonder at";
}

// Its open() would wait for somebody to write to it.
TEST_F(PrivateFolderTest, PipeInThePlaceOfTheMarkIsNotWaitedFor) {
  leave_one();
  const std::string mark = folders().at(0) + "/removed-with-its-process";
  ASSERT_TRUE(std::filesystem::remove(mark));
  ASSERT_EQ(::mkfifo(mark.c_str(), 0600), 0);
  EXPECT_TRUE(PrivateFolder::create().has_value());
}

}  // namespace
}  // namespace farpage
