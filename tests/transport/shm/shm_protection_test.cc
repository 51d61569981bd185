#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "transport/shm/shm_fabric.h"

namespace farpage {
namespace {

constexpr uint64_t kPoolBytes = 64 * 1024;

// A client that means harm holds the pool's descriptor, as every client does, and tries all that a
// descriptor allows (I6, protocol rule 14).
class ShmProtection : public ::testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < kPoolBytes; ++i) pool_.data()[i] = static_cast<std::byte>(i * 31 + 7);
    before_.assign(pool_.data(), pool_.data() + kPoolBytes);
  }
  void TearDown() override {
    EXPECT_TRUE(std::equal(before_.begin(), before_.end(), pool_.data()));
  }

  // Reopened through /proc, a descriptor forgets how it was opened.
  UniqueFd reopen(int flags) const {
    const std::string path = "/proc/self/fd/" + std::to_string(received_.fd.get());
    return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC));
  }
  static void* map(int fd, int protection, int flags = MAP_SHARED) {
    return ::mmap(nullptr, kPoolBytes, protection, flags, fd, 0);
  }
  void expect_no_way_in(int fd) const {
    EXPECT_EQ(map(fd, PROT_READ | PROT_WRITE), MAP_FAILED);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(map(fd, PROT_WRITE), MAP_FAILED);
    EXPECT_LT(::write(fd, "harm", 4), 0);
    EXPECT_LT(::pwrite(fd, "harm", 4, 100), 0);
    EXPECT_NE(::ftruncate(fd, 0), 0);
    EXPECT_NE(::ftruncate(fd, 1 << 20), 0);
    EXPECT_NE(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
    EXPECT_NE(::fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096), 0);
  }

  std::unique_ptr<Fabric> fabric_ = shm::make_shm_fabric();
  Region pool_ = fabric_->allocate_readable(kPoolBytes).value();
  RegionExport received_ = fabric_->export_region(pool_).value();
  std::vector<std::byte> before_;
};

TEST_F(ShmProtection, DescriptorGivesNoWritableMappingAndTakesNoWrite) {
  expect_no_way_in(received_.fd.get());
}

TEST_F(ShmProtection, NeitherDoesOneThatWasReopenedForWriting) {
  const UniqueFd reopened = reopen(O_RDWR);
  if (reopened.valid()) expect_no_way_in(reopened.get());
  EXPECT_FALSE(reopen(O_RDWR | O_TRUNC).valid());
}

TEST_F(ShmProtection, ReadOnlyMappingStaysReadOnly) {
  for (const UniqueFd& fd : {reopen(O_RDWR), reopen(O_RDONLY)}) {
    if (!fd.valid()) continue;
    void* mapped = map(fd.get(), PROT_READ);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_NE(::mprotect(mapped, kPoolBytes, PROT_READ | PROT_WRITE), 0);
    EXPECT_NE(::madvise(mapped, kPoolBytes, MADV_REMOVE), 0);
    EXPECT_EQ(::munmap(mapped, kPoolBytes), 0);
  }
}

TEST_F(ShmProtection, PrivateCopyChangesNothingOfThePool) {
  void* mapped = map(received_.fd.get(), PROT_READ | PROT_WRITE, MAP_PRIVATE);
  if (mapped == MAP_FAILED) return;
  std::fill_n(static_cast<std::byte*>(mapped), kPoolBytes, std::byte{0});
  EXPECT_EQ(::munmap(mapped, kPoolBytes), 0);
}

TEST_F(ShmProtection, SealsStay) {
  const int seals = ::fcntl(received_.fd.get(), F_GET_SEALS);
  EXPECT_EQ(seals & (F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
            F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_NE(::fcntl(received_.fd.get(), F_ADD_SEALS, 0), 0);
}

// The test's own eyes: the node itself can write.
TEST_F(ShmProtection, OwnerStillWrites) {
  pool_.data()[5] = std::byte{0x5A};
  before_[5] = std::byte{0x5A};
  void* mapped = map(received_.fd.get(), PROT_READ);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(static_cast<std::byte*>(mapped)[5], std::byte{0x5A});
  EXPECT_EQ(::munmap(mapped, kPoolBytes), 0);
}

}  // namespace
}  // namespace farpage
