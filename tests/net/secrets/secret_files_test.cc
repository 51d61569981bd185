#include "net/secrets/secret_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

namespace fs = std::filesystem;

// Files in a folder, and what was made of them last. "bad" in one of them is no secret.
class SecretFilesTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) { return dir_ / name; }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(path(name)) << text;
  }
  // As tools renew: a new file in the place of the old one.
  void replace(const std::string& name, const std::string& text) {
    write(name + ".new", text);
    fs::rename(path(name + ".new"), path(name));
  }
  std::unique_ptr<SecretFiles> open(const std::vector<std::string>& names) {
    SecretFiles::Options options = {.what = "the secret", .paths = {}, .read = {}};
    for (const std::string& name : names) options.paths.push_back(path(name));
    options.read = [this, paths = options.paths]() -> Result<void> {
      ++reads_;
      std::string all;
      for (const std::string& each : paths) {
        std::string text;
        if (!(std::ifstream(each) >> text)) return fail(Code::kInvalid, "no " + each);
        if (text == "bad") return fail(Code::kInvalid, "it is bad");
        all += text;
      }
      in_use_ = all;
      return {};
    };
    options.expires_s = [this] { return expires_s_; };
    auto opened = SecretFiles::open(std::move(options));
    EXPECT_TRUE(opened.has_value());
    return std::move(*opened);
  }
  // Until it says no more: what it has said.
  static std::vector<std::string> settle(SecretFiles& files) {
    std::vector<std::string> said;
    for (int i = 0; i < 4; ++i) {
      if (auto word = files.look()) said.push_back(word->text);
    }
    return said;
  }

  TempDir dir_;
  std::string in_use_;
  int reads_ = 0;
  int64_t expires_s_ = 0;
};

TEST_F(SecretFilesTest, FirstReadIsTheCallersToJudge) {
  write("a", "bad");
  EXPECT_FALSE(
      SecretFiles::open({.what = "the secret",
                         .paths = {path("a")},
                         .read = []() -> Result<void> { return fail(Code::kInvalid, "x"); }})
          .has_value());
}

TEST_F(SecretFilesTest, WhatDoesNotChangeIsReadTwiceAndNoMore) {
  write("a", "one");
  const auto files = open({"a"});
  EXPECT_TRUE(settle(*files).empty());
  EXPECT_TRUE(settle(*files).empty());
  EXPECT_EQ(reads_, 2);  // it may have been written on while it was opened
}

TEST_F(SecretFilesTest, AnyWayOfChangingAFileIsSeen) {
  fs::create_directory(path("v1"));
  fs::create_directory(path("v2"));
  write("v1/a", "one");
  write("v2/a", "two");
  fs::create_symlink("v1", path("data"));
  fs::create_symlink("data/a", path("a"));
  const auto files = open({"a"});
  settle(*files);
  EXPECT_EQ(in_use_, "one");

  fs::create_symlink("v2", path("data.new"));  // as Kubernetes does
  fs::rename(path("data.new"), path("data"));
  EXPECT_EQ(settle(*files).size(), 1u);
  EXPECT_EQ(in_use_, "two");

  write("v2/a", "six");  // in place, of the same length
  EXPECT_EQ(settle(*files).size(), 1u);
  EXPECT_EQ(in_use_, "six");

  const timespec long_ago[2] = {{1, 0}, {1, 0}};  // as `cp -p` and `rsync -t` do
  write("v2/a", "ten");
  ASSERT_EQ(::utimensat(AT_FDCWD, path("v2/a").c_str(), long_ago, 0), 0);
  EXPECT_EQ(settle(*files).size(), 1u);
  EXPECT_EQ(in_use_, "ten");
}

TEST_F(SecretFilesTest, ChangeIsTakenOnceTwoLooksHaveFoundTheSame) {
  write("certificate", "c1");
  write("key", "k1");
  const auto files = open({"certificate", "key"});
  settle(*files);
  replace("certificate", "c2");
  EXPECT_FALSE(files->look().has_value());
  EXPECT_EQ(in_use_, "c1k1");
  replace("key", "k2");
  EXPECT_FALSE(files->look().has_value());
  EXPECT_EQ(in_use_, "c1k1");
  const auto word = files->look();
  ASSERT_TRUE(word.has_value());
  EXPECT_FALSE(word->is_warning);
  EXPECT_EQ(in_use_, "c2k2");
}

TEST_F(SecretFilesTest, WhatCannotBeUsedLeavesWhatWasAndIsToldOnce) {
  write("a", "one");
  const auto files = open({"a"});
  settle(*files);
  replace("a", "bad");
  const auto said = settle(*files);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("the secret has changed and cannot be used: it is bad"),
            std::string::npos);
  EXPECT_NE(said[0].find("stays in use"), std::string::npos);
  EXPECT_EQ(in_use_, "one");
  EXPECT_TRUE(settle(*files).empty());

  fs::remove(path("a"));
  settle(*files);
  EXPECT_EQ(in_use_, "one");
  replace("a", "two");
  EXPECT_EQ(settle(*files).size(), 1u);
  EXPECT_EQ(in_use_, "two");
}

// A certificate that is not valid yet becomes so without a change of its file.
TEST_F(SecretFilesTest, WhatCouldNotBeUsedIsTriedAgainThoughNothingHasChanged) {
  write("a", "one");
  bool refuses = false;
  int taken = 0;
  auto files = SecretFiles::open({.what = "the secret",
                                  .paths = {path("a")},
                                  .read = [&]() -> Result<void> {
                                    if (refuses) return fail(Code::kInvalid, "not yet");
                                    ++taken;
                                    return {};
                                  }})
                   .value();
  settle(*files);
  replace("a", "two");
  refuses = true;
  settle(*files);
  const int before = taken;
  refuses = false;
  ASSERT_TRUE(files->look().has_value());
  EXPECT_EQ(taken, before + 1);
}

TEST_F(SecretFilesTest, SameTextInANewFileIsNothingToTell) {
  write("a", "one");
  const auto files = open({"a"});
  replace("a", "one");
  EXPECT_TRUE(settle(*files).empty());
}

TEST_F(SecretFilesTest, AtOnceReadsAndTellsWithoutASecondLook) {
  write("a", "one");
  const auto files = open({"a"});
  replace("a", "two");
  EXPECT_TRUE(files->look(true).has_value());
  EXPECT_EQ(in_use_, "two");
  replace("a", "bad");
  EXPECT_TRUE(files->look(true)->is_warning);
  EXPECT_TRUE(files->look(true)->is_warning);  // whoever asks is answered
}

TEST_F(SecretFilesTest, EndOfWhatIsInUseIsToldOnce) {
  write("a", "one");
  const auto files = open({"a"});
  expires_s_ = std::time(nullptr) + 3600;
  EXPECT_TRUE(settle(*files).empty());
  expires_s_ = std::time(nullptr) - 1;
  const auto said = settle(*files);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("has expired at 20"), std::string::npos) << said[0];
  replace("a", "bad");
  EXPECT_EQ(settle(*files).size(), 1u);  // of the new one
}

TEST_F(SecretFilesTest, PipeIsReadOnce) {
  ASSERT_EQ(::mkfifo(path("a").c_str(), 0600), 0);
  const UniqueFd both_ends(::open(path("a").c_str(), O_RDWR));
  ASSERT_EQ(::write(both_ends.get(), "one\n", 4), 4);
  const auto files = open({"a"});
  EXPECT_EQ(in_use_, "one");
  EXPECT_TRUE(settle(*files).empty());
  EXPECT_FALSE(files->look(true).has_value());
  EXPECT_EQ(reads_, 1);
}

TEST_F(SecretFilesTest, PipeInThePlaceOfAFileIsNotWaitedFor) {
  write("a", "one");
  const auto files = open({"a"});
  settle(*files);
  fs::remove(path("a"));
  ASSERT_EQ(::mkfifo(path("a").c_str(), 0600), 0);
  EXPECT_TRUE(settle(*files).empty());
  fs::remove(path("a"));
  write("a", "two");
  settle(*files);
  EXPECT_EQ(in_use_, "two");
}

}  // namespace
}  // namespace farpage
