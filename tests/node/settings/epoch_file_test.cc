#include "node/settings/epoch_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <sstream>

#include "integrity/page_header.h"
#include "tests/support/temp_dir.h"

namespace {
std::function<void()> on_sync;
}

// Stands before the C library's, so that a test sees what is on its way to the disk.
extern "C" int fsync(int fd) {
  if (on_sync) on_sync();
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace farpage {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

class EpochFileTest : public ::testing::Test {
 protected:
  ~EpochFileTest() override { on_sync = nullptr; }

  TempDir dir_;
  std::string path_ = dir_ / "node.state";
};

TEST_F(EpochFileTest, EpochsGrowOverRestarts) {
  uint64_t last = 0;
  for (int run = 0; run < 5; ++run) {
    auto file = EpochFile::open(path_);
    ASSERT_TRUE(file.has_value());
    EXPECT_EQ(file->previous_lease_ns(), run == 0 ? 0u : 1000u + static_cast<uint64_t>(run) - 1);
    for (int i = 0; i < 3; ++i) {
      const uint64_t epoch = file->advance(1000 + static_cast<uint64_t>(run)).value();
      EXPECT_GT(epoch, last);
      last = epoch;
    }
  }
}

TEST_F(EpochFileTest, IsOnDiskBeforeItIsUsed) {
  auto file = EpochFile::open(path_).value();
  ASSERT_EQ(file.advance(5), 1u);
  const std::string before = read_file(path_);
  std::vector<std::string> synced;
  on_sync = [&] { synced.push_back(read_file(path_)); };
  ASSERT_EQ(file.advance(6), 2u);
  ASSERT_EQ(synced.size(), 2u) << "the file and its folder";
  EXPECT_NE(synced[0], before);
  EXPECT_EQ(synced[0], read_file(path_));
  EXPECT_NE(synced[0].find("epoch 00000000000000000002"), std::string::npos) << synced[0];
  EXPECT_NE(synced[0].find("lease_ns 00000000000000000006"), std::string::npos) << synced[0];
}

TEST_F(EpochFileTest, SecondOpenerIsRefused) {
  auto first = EpochFile::open(path_);
  ASSERT_TRUE(first.has_value());
  const auto second = EpochFile::open(path_);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kExists);
  EXPECT_NE(second.error().message.find("node.state"), std::string::npos) << second.error().message;
  first = fail(Code::kAborted, "closed");
  EXPECT_TRUE(EpochFile::open(path_).has_value());
}

TEST_F(EpochFileTest, DamagedFileIsRefusedAndLeftAlone) {
  {
    auto file = EpochFile::open(path_).value();
    ASSERT_TRUE(file.advance(1234).has_value());
  }
  const std::string good = read_file(path_);
  std::vector<std::string> damaged = {"x",
                                      std::string(64, '\0'),
                                      "farpage-node-state 2" + good.substr(20),
                                      good + good,
                                      good + "x",
                                      " " + good};
  for (size_t length = 1; length < good.size(); ++length) damaged.push_back(good.substr(0, length));
  for (const std::string& text : damaged) {
    write_file(path_, text);
    const auto refused = EpochFile::open(path_);
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_NE(refused.error().message.find("damaged"), std::string::npos)
        << refused.error().message;
    EXPECT_EQ(read_file(path_), text);
  }
  write_file(path_, good);
  EXPECT_EQ(EpochFile::open(path_).value().previous_lease_ns(), 1234u);
}

TEST_F(EpochFileTest, EmptyFileIsANewOne) {
  write_file(path_, "");
  EXPECT_EQ(EpochFile::open(path_).value().advance(1), 1u);
}

TEST_F(EpochFileTest, LastEpochIsTheLast) {
  {
    auto file = EpochFile::open(path_).value();
    ASSERT_TRUE(file.advance(1).has_value());
  }
  std::string text = read_file(path_);
  const std::string last = std::to_string(kMaxEpoch - 1);
  const size_t end = text.find(" lease_ns");
  text.replace(end - last.size(), last.size(), last);
  write_file(path_, text);
  auto file = EpochFile::open(path_).value();
  EXPECT_EQ(file.advance(1), kMaxEpoch);
  const auto beyond = file.advance(1);
  ASSERT_FALSE(beyond.has_value());
  EXPECT_EQ(beyond.error().code, Code::kExhausted);
}

// Of a run that is not in the file a client may still hold the lease.
TEST_F(EpochFileTest, LeastEpochPassesOverRunsThatWereLostAndWaitsForTheLast) {
  {
    auto file = EpochFile::open(path_).value();
    ASSERT_EQ(file.advance(7, 40), 40u);
    EXPECT_EQ(file.previous_lease_ns(), 7u);
    ASSERT_EQ(file.advance(7, 40), 41u) << "it may stay in the configuration";
  }
  auto file = EpochFile::open(path_).value();
  EXPECT_EQ(file.last_epoch(), 41u);
  ASSERT_EQ(file.advance(9, 12), 42u) << "no epoch is given twice, whatever is asked for";
  EXPECT_EQ(file.previous_lease_ns(), 7u);
  EXPECT_FALSE(file.advance(9, kMaxEpoch + 1));
  EXPECT_EQ(file.advance(9, kMaxEpoch), kMaxEpoch);
}

TEST_F(EpochFileTest, LeastEpochOfANewNodeIsNothingToWaitFor) {
  auto file = EpochFile::open(path_).value();
  ASSERT_EQ(file.advance(7, 1), 1u);
  EXPECT_EQ(file.previous_lease_ns(), 0u);
}

TEST_F(EpochFileTest, PlaceThatTakesNoFileSaysSo) {
  for (const std::string& path : {dir_ / "missing/node.state", dir_ / "."}) {
    const auto refused = EpochFile::open(path);
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find(path), std::string::npos) << refused.error().message;
    EXPECT_NE(refused.error().message.find("node.state"), std::string::npos);
    EXPECT_NE(refused.error().message.find("--state"), std::string::npos);
  }
}

// No byte more may be written: as on a full disk.
TEST_F(EpochFileTest, WriteThatFailsGivesNoEpoch) {
  auto file = EpochFile::open(path_).value();
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto refused = file.advance(1);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, previous);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("cannot sync"), std::string::npos);
  EXPECT_EQ(file.advance(1), 1u);
}

}  // namespace
}  // namespace farpage
