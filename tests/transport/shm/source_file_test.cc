#include "transport/shm/source_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/units.h"
#include "integrity/crc32c.h"
#include "tests/support/shared_pool.h"
#include "transport/peer_memory.h"

namespace farpage::shm {
namespace {

constexpr uint64_t kPage = 4 * kKiB;

// A client's pool, of which each 8 bytes say where they are.
class SourceFile : public ::testing::Test {
 protected:
  void SetUp() override { fill(0); }
  void fill(uint64_t first) {
    for (uint64_t at = 0; at < pool_.bytes(); at += sizeof at) {
      const uint64_t word = first + at;
      std::memcpy(pool_.data() + at, &word, sizeof word);
    }
  }
  RegionExport exported() {
    auto region = export_file_of({pool_.data() + kPage / 2, 3 * kPage});
    EXPECT_TRUE(region);
    return std::move(region).value();
  }
  // That of a client that sends another descriptor.
  RegionExport with(int file) {
    RegionExport region = exported();
    region.fd.reset(file);
    return region;
  }
  void expect_refused(RegionExport region, const std::string& why) {
    const auto source = import_file(std::move(region));
    ASSERT_FALSE(source);
    EXPECT_EQ(source.error().code, Code::kInvalid);
    EXPECT_NE(source.error().message.find(why), std::string::npos) << source.error().message;
  }

  SharedPool pool_{4 * kPage, kPage};
};

TEST_F(SourceFile, CopiesTheClientsBytesAsTheyAreNowAndCountsTheirCrc) {
  const auto source = import_file(exported()).value();
  EXPECT_EQ(source->bytes(), 3 * kPage);
  for (const uint64_t first : {0, 1'000'000}) {
    fill(first);
    std::vector<std::byte> copy(kPage);
    const auto crc = source->copy(copy.data(), 8, copy.size());
    const std::byte* truth = pool_.data() + kPage / 2 + 8;
    EXPECT_TRUE(std::equal(copy.begin(), copy.end(), truth));
    EXPECT_EQ(crc, crc32c(0, truth, copy.size()));
  }
}

TEST_F(SourceFile, BytesOutsideOfTheMemoryAreNotCopied) {
  const auto source = import_file(exported()).value();
  std::vector<std::byte> copy(4 * kPage, std::byte{9});
  for (const auto& [offset, bytes] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 3 * kPage + 1},
                                                  {3 * kPage, 1},
                                                  {3 * kPage - 1, 2},
                                                  {~uint64_t{0}, 1},
                                                  {~uint64_t{0}, 2},
                                                  {1, ~uint64_t{0}}}) {
    EXPECT_FALSE(source->copy(copy.data(), offset, bytes));
  }
  EXPECT_EQ(std::ranges::count(copy, std::byte{9}), static_cast<ptrdiff_t>(copy.size()));
  EXPECT_TRUE(source->copy(copy.data(), 0, 3 * kPage));
}

TEST_F(SourceFile, MemoryThatTheClientTakesAwayIsNotCopiedAndEndsNothing) {
  const auto source = import_file(exported()).value();
  std::vector<std::byte> copy(3 * kPage);
  pool_.resize(2 * kPage);  // half a page of the memory is left
  EXPECT_FALSE(source->copy(copy.data(), 0, 3 * kPage));
  EXPECT_FALSE(source->copy(copy.data(), kPage, 1));
  EXPECT_TRUE(source->copy(copy.data(), 0, kPage / 2));
}

TEST_F(SourceFile, WhatIsNoFileInMemoryIsRefusedAndNotRead) {
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd writer(ends[1]);
  expect_refused(with(ends[0]), "no file in memory");
  expect_refused(with(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), "no file in memory");
  expect_refused(with(::open("/dev/shm", O_RDONLY | O_CLOEXEC)), "no file in memory");
  expect_refused(with(::open("/dev/zero", O_RDONLY | O_CLOEXEC)), "no file in memory");
  expect_refused(with(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), "no file in memory");
  expect_refused(with(-1), "no file in memory");
}

TEST_F(SourceFile, AFileThatIsShorterThanItsClientSaysIsRefused) {
  RegionExport region = exported();
  pool_.resize(4 * kPage);
  expect_refused(std::move(region), "shorter");
}

TEST_F(SourceFile, FieldsOutOfRangeAreRefused) {
  const auto with_offset = [&](uint64_t offset) {
    RegionExport region = exported();
    region.opaque.assign(reinterpret_cast<const char*>(&offset), sizeof offset);
    return region;
  };
  expect_refused(with_offset(~uint64_t{0}), "too far inside");
  expect_refused(with_offset(4 * kPage), "shorter");
  for (const uint64_t bytes : {uint64_t{0}, kMaxRegionBytes + 1, ~uint64_t{0}}) {
    RegionExport region = exported();
    region.bytes = bytes;
    expect_refused(std::move(region), "out of range");
  }
  for (const char* opaque : {"", "short", "longer than a number"}) {
    RegionExport region = exported();
    region.opaque = opaque;
    expect_refused(std::move(region), "does not say where");
  }
  RegionExport region = exported();
  region.place.kind = MemoryKind::kCuda;
  expect_refused(std::move(region), "not host memory");
}

TEST_F(SourceFile, AFileThatMayNotBeReadIsRefused) {
  EXPECT_FALSE(import_file(with(
      ::open(("/proc/self/fd/" + std::to_string(pool_.file())).c_str(), O_WRONLY | O_CLOEXEC))));
}

TEST_F(SourceFile, AFileOfAnotherUserIsRefused) {
  if (::fchown(pool_.file(), 12'345, static_cast<gid_t>(-1)) != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  expect_refused(exported(), "another user's");
}

}  // namespace
}  // namespace farpage::shm
