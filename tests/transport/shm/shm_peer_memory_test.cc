// Which descriptors of a peer's are mapped: its owner must not be able to end whoever touches it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/units.h"
#include "tests/support/temp_dir.h"
#include "transport/shm/shared_memory.h"

namespace farpage::shm {
namespace {

using testing::HasSubstr;

constexpr uint64_t kChannel = 7;
constexpr uint64_t kTotal = 4 * kMiB;  // whole huge pages
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

class ShmPeerMemory : public testing::TestWithParam<Access> {
 protected:
  // With all that its owner can write into it, if it can be mapped.
  static RegionExport exported(UniqueFd file, Access access) {
    const Trailer trailer = {.magic = kTrailerMagic,
                             .bytes = kTotal - kTrailerBytes,
                             .channel = kChannel,
                             .access = static_cast<uint32_t>(access),
                             .generation = 1,
                             .registered = 1};
    // Refused by what is no memory.
    [[maybe_unused]] const ssize_t written =
        ::pwrite(file.get(), &trailer, sizeof trailer, kTotal - kTrailerBytes);
    RegionExport region;
    region.bytes = kTotal - kTrailerBytes;
    region.access = access;
    region.fd = std::move(file);
    return region;
  }
  static UniqueFd make_file(unsigned flags) {
    UniqueFd file(::memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
    if (file.valid() && ::ftruncate(file.get(), kTotal) != 0) file.reset();
    return file;
  }
  static void seal(const RegionExport& region) {
    const int future = region.access == Access::kRemoteRead ? F_SEAL_FUTURE_WRITE : 0;
    ASSERT_EQ(::fcntl(region.fd.get(), F_ADD_SEALS, kSeals | future), 0);
  }
  static void expect_refused(RegionExport region, const char* why) {
    const auto mapped = map_peer_memory(region, kChannel);
    ASSERT_FALSE(mapped.has_value());
    EXPECT_EQ(mapped.error().code, Code::kProtocol);
    EXPECT_THAT(mapped.error().message, HasSubstr(why));
  }
};

INSTANTIATE_TEST_SUITE_P(Access, ShmPeerMemory,
                         testing::Values(Access::kRemoteRead, Access::kRemoteWrite),
                         [](const auto& info) {
                           return info.param == Access::kRemoteRead ? "Read" : "Write";
                         });

TEST_P(ShmPeerMemory, OrdinarySealedMemoryIsTaken) {
  const RegionExport region = exported(make_file(0), GetParam());
  seal(region);
  const auto mapped = map_peer_memory(region, kChannel);
  EXPECT_TRUE(mapped.has_value()) << mapped.error().message;
}

// A hole in them is filled from the huge pages that are free, which may be none.
TEST_P(ShmPeerMemory, HugePagesAreRefusedHoweverTheyAreSealed) {
  UniqueFd file = make_file(MFD_HUGETLB);
  if (!file.valid()) GTEST_SKIP() << "hardware: this kernel has no huge pages of 2 MiB";
  const RegionExport region = exported(std::move(file), GetParam());
  seal(region);
  const auto mapped = map_peer_memory(region, kChannel);
  ASSERT_FALSE(mapped.has_value());
  EXPECT_EQ(mapped.error().code, Code::kProtocol);
  EXPECT_THAT(mapped.error().message, HasSubstr("huge pages"));
}

TEST_P(ShmPeerMemory, MemoryWithoutSealsIsRefused) {
  expect_refused(exported(make_file(0), GetParam()), "not sealed");
}

TEST_P(ShmPeerMemory, FilesOfADiskAreRefused) {
  const TempDir dir;
  UniqueFd file(::open((dir / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), kTotal), 0);
  expect_refused(exported(std::move(file), GetParam()), "not sealed");
}

// An answer comes at once also where nobody has opened the other end.
TEST_P(ShmPeerMemory, PipesSocketsAndDevicesAreRefused) {
  std::array<int, 2> pipe = {};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const UniqueFd other_end(pipe[0]);
  expect_refused(exported(UniqueFd(pipe[1]), GetParam()), "not sealed");
  for (const char* device : {"/dev/zero", "/dev/null"}) {
    expect_refused(exported(UniqueFd(::open(device, O_RDWR | O_CLOEXEC)), GetParam()),
                   "not sealed");
  }
}

TEST_P(ShmPeerMemory, SecretMemoryIsRefused) {
#ifdef SYS_memfd_secret
  UniqueFd file(static_cast<int>(::syscall(SYS_memfd_secret, O_CLOEXEC)));
  if (!file.valid()) GTEST_SKIP() << "hardware: this kernel has no secret memory";
  ASSERT_EQ(::ftruncate(file.get(), kTotal), 0);
  expect_refused(exported(std::move(file), GetParam()), "not sealed");
#else
  GTEST_SKIP() << "hardware: this system knows no secret memory";
#endif
}

TEST_P(ShmPeerMemory, NoDescriptorIsRefused) {
  expect_refused(exported(UniqueFd(), GetParam()), "no valid descriptor");
}

}  // namespace
}  // namespace farpage::shm
