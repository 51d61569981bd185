#include "net/secrets/secret_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
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
    SecretFiles::Secret secret = {.what = "the secret", .paths = {}};
    for (const std::string& name : names) secret.paths.push_back(path(name));
    secret.expires_s = [this] { return expires_s_; };
    const auto read = [this, paths = secret.paths]() -> Result<void> {
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
    auto opened = SecretFiles::open(
        {{std::move(secret)}, [read](const auto&) { return SecretFiles::Results{read()}; }});
    EXPECT_TRUE(opened.has_value());
    return std::move(*opened);
  }
  // Until it says no more: what it has said.
  static std::vector<std::string> settle(SecretFiles& files) {
    std::vector<std::string> said;
    for (int i = 0; i < 4; ++i) {
      for (auto& word : files.look()) said.push_back(std::move(word.text));
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
  EXPECT_FALSE(SecretFiles::open({.secrets = {{"the secret", {path("a")}}},
                                  .read = [](const auto&) -> SecretFiles::Results {
                                    return {fail(Code::kInvalid, "x")};
                                  }})
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
  EXPECT_TRUE(files->look().empty());
  EXPECT_EQ(in_use_, "c1k1");
  replace("key", "k2");
  EXPECT_TRUE(files->look().empty());
  EXPECT_EQ(in_use_, "c1k1");
  const auto words = files->look();
  ASSERT_EQ(words.size(), 1u);
  EXPECT_FALSE(words[0].is_warning);
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
  auto files = SecretFiles::open({.secrets = {{"the secret", {path("a")}}},
                                  .read = [&](const auto&) -> SecretFiles::Results {
                                    if (refuses) return {fail(Code::kInvalid, "not yet")};
                                    ++taken;
                                    return {Result<void>()};
                                  }})
                   .value();
  settle(*files);
  replace("a", "two");
  refuses = true;
  settle(*files);
  const int before = taken;
  refuses = false;
  ASSERT_EQ(files->look().size(), 1u);
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
  EXPECT_EQ(files->look(true).size(), 1u);
  EXPECT_EQ(in_use_, "two");
  replace("a", "bad");
  EXPECT_TRUE(files->look(true).at(0).is_warning);
  EXPECT_TRUE(files->look(true).at(0).is_warning);  // whoever asks is answered
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

TEST_F(SecretFilesTest, PipeIsReadOnceAndWhoAsksForMoreIsToldHowToRenewIt) {
  ASSERT_EQ(::mkfifo(path("a").c_str(), 0600), 0);
  const UniqueFd both_ends(::open(path("a").c_str(), O_RDWR));
  ASSERT_EQ(::write(both_ends.get(), "one\n", 4), 4);
  const auto files = open({"a"});
  EXPECT_EQ(in_use_, "one");
  EXPECT_TRUE(settle(*files).empty());
  const auto words = files->look(true);
  ASSERT_EQ(words.size(), 1u);
  EXPECT_NE(words[0].text.find("the secret was not read again"), std::string::npos);
  EXPECT_NE(words[0].text.find("start this process again"), std::string::npos);
  EXPECT_FALSE(files->is_watched());
  EXPECT_EQ(reads_, 1);
}

TEST_F(SecretFilesTest, PipeInThePlaceOfAFileIsNotWaitedFor) {
  write("a", "one");
  const auto files = open({"a"});
  settle(*files);
  fs::remove(path("a"));
  ASSERT_EQ(::mkfifo(path("a").c_str(), 0600), 0);
  EXPECT_TRUE(settle(*files).empty());
  const auto words = files->look(true);
  ASSERT_EQ(words.size(), 1u);
  EXPECT_NE(words[0].text.find("put a regular file there"), std::string::npos);
  fs::remove(path("a"));
  write("a", "two");
  settle(*files);
  EXPECT_EQ(in_use_, "two");
}

// Three secrets, each of one file, that are read together. "bad" is none.
class SecretsTogether : public SecretFilesTest {
 protected:
  std::unique_ptr<SecretFiles> open_all() {
    SecretFiles::Options options;
    for (const std::string name : {"a", "b", "c"}) {
      options.secrets.push_back({.what = "secret " + name, .paths = {path(name)}});
    }
    options.read = [this](const SecretFiles::Reads& reads) {
      SecretFiles::Results results(reads.size());
      for (size_t i = 0; i < reads.size(); ++i) {
        if (!reads[i]) continue;
        std::string text;
        std::ifstream(path(std::string(1, static_cast<char>('a' + i)))) >> text;
        if (text == "bad") {
          results[i] = fail(Code::kInvalid, "it is bad");
        } else {
          read_[i] = text;
        }
      }
      return results;
    };
    auto opened = SecretFiles::open(std::move(options));
    EXPECT_TRUE(opened.has_value());
    return std::move(*opened);
  }

  std::array<std::string, 3> read_;
};

TEST_F(SecretsTogether, EachIsToldByItsOwnState) {
  for (const char* name : {"a", "b", "c"}) write(name, "one");
  const auto files = open_all();
  settle(*files);
  replace("a", "two");
  replace("b", "bad");
  const auto said = settle(*files);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0], "secret a has changed: new connections use it");
  EXPECT_NE(said[1].find("secret b has changed and cannot be used: it is bad"), std::string::npos);
  EXPECT_EQ(read_, (std::array<std::string, 3>{"two", "one", "one"}));
  replace("c", "two");  // while b is still bad, which was told
  EXPECT_EQ(settle(*files).size(), 1u);
  EXPECT_EQ(read_[2], "two");
}

TEST_F(SecretsTogether, OneThatCameFromAPipeKeepsNoOtherFromBeingReadAgain) {
  write("a", "one");
  ASSERT_EQ(::mkfifo(path("b").c_str(), 0600), 0);
  write("c", "one");
  const UniqueFd both_ends(::open(path("b").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::write(both_ends.get(), "pipe\n", 5), 5);
  const auto files = open_all();
  EXPECT_TRUE(settle(*files).empty());
  replace("a", "two");
  EXPECT_EQ(settle(*files).size(), 1u);
  replace("c", "two");
  const auto words = files->look(true);
  ASSERT_EQ(words.size(), 2u);
  EXPECT_NE(words[0].text.find("secret b was not read again"), std::string::npos);
  EXPECT_TRUE(words[1].text.starts_with("secret c has changed"));
  EXPECT_EQ(read_, (std::array<std::string, 3>{"two", "pipe", "two"}));
}

}  // namespace
}  // namespace farpage
