#include "base/memory/shared_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <optional>

#include "base/memory/mapping.h"
#include "base/units.h"
#include "tests/support/shared_pool.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

constexpr uint64_t kPage = 4 * kKiB;

constexpr std::string_view kMaps =
    "1000-3000 rw-s 00005000 00:1b 17     /dev/shm/a pool\n"
    "3000-4000 rw-s 00007000 00:1b 17     /dev/shm/a pool\n"
    "4000-5000 rw-s 00009000 00:1b 17     /dev/shm/a pool\n"
    "5000-6000 rw-p 0000a000 00:1b 17     /dev/shm/a pool\n"
    "8000-9000 rw-s 00000000 00:1b 18     /dev/shm/another\n"
    "9000-a000 rw-s 00001000 00:1b 17     /dev/shm/a pool\n";

std::optional<uint64_t> offset_in_maps(uintptr_t begin, uint64_t bytes) {
  const auto place = file_place_in(kMaps, begin, bytes);
  if (!place) return std::nullopt;
  EXPECT_EQ(place->inode, 17u);
  return place->offset;
}

TEST(SharedFile, OffsetIsThatOfTheFirstByteAlsoAcrossAreasThatContinueTheFile) {
  EXPECT_EQ(offset_in_maps(0x1000, 0x2000), 0x5000u);
  EXPECT_EQ(offset_in_maps(0x1800, 1), 0x5800u);
  EXPECT_EQ(offset_in_maps(0x1800, 0x2800), 0x5800u);  // the second area goes on at 0x7000
}

TEST(SharedFile, MemoryThatIsNotOneRunOfAFileHasNone) {
  EXPECT_FALSE(offset_in_maps(0x3800, 0x1000));  // the file's page at 0x8000 is left out
  EXPECT_FALSE(offset_in_maps(0x5000, 0x1000));  // private
  EXPECT_FALSE(offset_in_maps(0x5800, 0x1000));  // a hole behind it
  EXPECT_FALSE(offset_in_maps(0x8000, 0x2000));  // two files
  EXPECT_FALSE(offset_in_maps(0x9000, 0x2000));  // longer than what is mapped
  EXPECT_FALSE(offset_in_maps(0x100, 1));
  EXPECT_FALSE(file_place_in("no maps at all\n", 0x1000, 1));
}

// What the file that was found holds for memory whose pages say where they are.
void expect_found(const SharedPool& pool) {
  std::memset(pool.data(), 7, pool.bytes());
  const auto found = shared_file_of(pool.data() + kPage, kPage);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->offset, pool.offset() + kPage);
  pool.data()[kPage + 100] = std::byte{42};
  std::byte byte{};
  ASSERT_EQ(::pread(found->file.get(), &byte, 1, static_cast<off_t>(found->offset + 100)), 1);
  EXPECT_EQ(byte, std::byte{42});
  EXPECT_EQ(::pwrite(found->file.get(), &byte, 1, 0), -1);  // it is open for reading alone
}

TEST(SharedFile, AFileOfDevShmIsFoundByItsPathAndByADescriptor) {
  SharedPool named(4 * kPage, 2 * kPage, SharedPool::Name::kKept);
  named.close();
  expect_found(named);
  const SharedPool unlinked(4 * kPage, 2 * kPage);
  expect_found(unlinked);
}

TEST(SharedFile, AFileThatNothingLeadsToIsNotFound) {
  SharedPool pool(4 * kPage);
  pool.close();
  EXPECT_FALSE(shared_file_of(pool.data(), pool.bytes()));
}

// The kernel calls a file that was unlinked by its path and a word, which may be another's path.
TEST(SharedFile, AnotherFileOfThatPathIsNotTakenForIt) {
  SharedPool pool(4 * kPage);
  pool.close();
  const std::string path = pool.path() + " (deleted)";
  const UniqueFd another(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ASSERT_TRUE(another.valid());
  EXPECT_FALSE(shared_file_of(pool.data(), pool.bytes()));
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);  // and it is not waited for
  EXPECT_FALSE(shared_file_of(pool.data(), pool.bytes()));
  ASSERT_EQ(::unlink(path.c_str()), 0);
}

TEST(SharedFile, PrivateMemoryAndFilesOfADiskHaveNone) {
  const auto anonymous = Mapping::anonymous(4 * kPage).value();
  EXPECT_FALSE(shared_file_of(anonymous.data(), anonymous.bytes()));
  const TempDir dir;
  const UniqueFd file(::open((dir / "pool").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), kPage), 0);
  if (is_file_in_memory(file.get())) GTEST_SKIP() << "the temporary folder is in memory";
  const auto mapped = Mapping::share(file.get(), kPage, Protection::kReadWrite).value();
  EXPECT_FALSE(shared_file_of(mapped.data(), mapped.bytes()));
}

TEST(SharedFile, OnlyRegularFilesInMemoryAreThat) {
  const SharedPool pool(kPage);
  EXPECT_TRUE(is_file_in_memory(pool.file()));
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  EXPECT_FALSE(is_file_in_memory(out.get()));
  EXPECT_FALSE(is_file_in_memory(UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)).get()));
  EXPECT_FALSE(is_file_in_memory(UniqueFd(::open("/dev/shm", O_RDONLY | O_CLOEXEC)).get()));
  EXPECT_FALSE(is_file_in_memory(UniqueFd(::open("/dev/zero", O_RDONLY | O_CLOEXEC)).get()));
  EXPECT_FALSE(is_file_in_memory(UniqueFd(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)).get()));
  EXPECT_FALSE(is_file_in_memory(-1));
}

}  // namespace
}  // namespace farpage
