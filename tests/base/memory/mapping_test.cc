#include "base/memory/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/memory/protection.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace farpage {
namespace {

UniqueFd shared_file(uint64_t bytes) {
  UniqueFd file(::memfd_create("mapping_test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  return file;
}

template <typename Owner>
Owner take(Owner& from) {
  return std::move(from);
}

TEST(Mapping, AnonymousMemoryIsZeroedAndWritable) {
  Result<Mapping> mapping = Mapping::anonymous(2 * kMiB);
  ASSERT_TRUE(mapping);
  EXPECT_EQ(mapping->bytes(), 2 * kMiB);
  EXPECT_EQ(mapping->data()[kMiB], std::byte{0});
  mapping->data()[kMiB] = std::byte{7};
  EXPECT_EQ(mapping->data()[kMiB], std::byte{7});
}

TEST(Mapping, TwoMappingsOfOneFileShareIt) {
  const UniqueFd file = shared_file(64 * kKiB);
  Result<Mapping> writer = Mapping::share(file.get(), 64 * kKiB, Protection::kReadWrite);
  Result<Mapping> reader = Mapping::share(file.get(), 64 * kKiB, Protection::kReadOnly);
  ASSERT_TRUE(writer && reader);
  writer->data()[100] = std::byte{9};
  EXPECT_EQ(reader->data()[100], std::byte{9});
}

TEST(Mapping, MovingLeavesNothingBehind) {
  Result<Mapping> mapping = Mapping::anonymous(64 * kKiB);
  ASSERT_TRUE(mapping);
  std::byte* const data = mapping->data();
  Mapping assigned;
  assigned = take(*mapping);
  EXPECT_EQ(assigned.data(), data);
  EXPECT_EQ(mapping->data(), nullptr);
}

TEST(Mapping, MoreThanTheAddressSpaceIsAnError) {
  const Result<Mapping> mapping = Mapping::anonymous(uint64_t{1} << 60);
  ASSERT_FALSE(mapping);
  EXPECT_EQ(mapping.error().code, Code::kExhausted);
  EXPECT_THAT(mapping.error().message, ::testing::HasSubstr("cannot map 1048576 TiB"));
}

TEST(Mapping, AddressesAreNobodyElsesAndTakeNoMemory) {
  constexpr uint64_t kBytes = 256 * kGiB;  // more than a GPU has; TSan leaves no room for two TiB
  const Result<Mapping> first = Mapping::addresses(kBytes);
  const Result<Mapping> second = Mapping::addresses(kBytes);
  ASSERT_TRUE(first && second);
  const auto begin = reinterpret_cast<uintptr_t>(first->data());
  const auto other = reinterpret_cast<uintptr_t>(second->data());
  EXPECT_GE(std::max(begin, other) - std::min(begin, other), kBytes);
  EXPECT_FALSE(protection_of(first->data(), 64));
}

TEST(Mapping, NoBytesOrNoFileIsAnError) {
  EXPECT_FALSE(Mapping::anonymous(0));
  EXPECT_FALSE(Mapping::share(-1, kMiB, Protection::kReadOnly));
}

TEST(UniqueFd, ClosesWhatItOwns) {
  int number = -1;
  {
    const UniqueFd file = shared_file(kKiB);
    number = file.get();
    ASSERT_TRUE(file.valid());
  }
  EXPECT_EQ(::lseek(number, 0, SEEK_CUR), -1);
}

TEST(UniqueFd, MovesItsOwnership) {
  UniqueFd first = shared_file(kKiB);
  const int number = first.get();
  UniqueFd second = take(first);
  EXPECT_FALSE(first.valid());
  EXPECT_EQ(second.get(), number);
  second.reset();
  EXPECT_EQ(::lseek(number, 0, SEEK_CUR), -1);
}

}  // namespace
}  // namespace farpage
