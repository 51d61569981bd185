#include "base/memory/protection.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace farpage {
namespace {

using testing::HasSubstr;

constexpr std::string_view kMaps =
    "1000-3000 rw-p 00000000 00:00 0 [heap]\n"
    "3000-4000 r--p 00000000 08:01 17 /a file\n"
    "6000-7000 rw-s 00000000 00:00 0\n"
    "7000-8000 ---p 00000000 00:00 0\n";

std::string maps_of_this_process() {
  std::ifstream file("/proc/self/maps");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Pages of the system's: each 'w' may be written, 'r' only read, '-' not even that, ' ' is
// unmapped.
class Areas {
 public:
  explicit Areas(std::string_view pages) : pages_(pages) {
    data_ = static_cast<std::byte*>(::mmap(nullptr, pages.size() * kPage, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; i < pages.size(); ++i) {
      if (pages[i] == 'r') {
        EXPECT_EQ(::mprotect(at(i), kPage, PROT_READ), 0);
      }
      if (pages[i] == '-') {
        EXPECT_EQ(::mprotect(at(i), kPage, PROT_NONE), 0);
      }
      if (pages[i] == ' ') {
        EXPECT_EQ(::munmap(at(i), kPage), 0);
      }
    }
  }
  ~Areas() {
    for (size_t i = 0; i < pages_.size(); ++i) {
      if (pages_[i] == ' ') continue;
      EXPECT_EQ(::munmap(at(i), kPage), 0);
    }
  }
  std::byte* at(size_t page) const { return data_ + page * kPage; }

  static inline const size_t kPage = static_cast<size_t>(::sysconf(_SC_PAGESIZE));

 private:
  std::string_view pages_;
  std::byte* data_ = nullptr;
};

TEST(Protection, IsThatOfAllBytes) {
  EXPECT_EQ(protection_in(kMaps, 0x1000, 0x2000), Protection::kReadWrite);
  EXPECT_EQ(protection_in(kMaps, 0x2fff, 1), Protection::kReadWrite);
  EXPECT_EQ(protection_in(kMaps, 0x2fff, 2), Protection::kReadOnly);
  EXPECT_EQ(protection_in(kMaps, 0x3001, 5), Protection::kReadOnly);
  EXPECT_EQ(protection_in(kMaps, 0x6000, 0x1000), Protection::kReadWrite);
}

TEST(Protection, WhatIsNotMappedOrMayNotBeReadIsNamed) {
  for (const auto& [begin, bytes] :
       {std::pair(0xfffu, 2u), {0x3fffu, 2u}, {0x5fffu, 1u}, {0x6000u, 0x1001u}, {0x8000u, 1u}}) {
    const auto refused = protection_in(kMaps, begin, bytes);
    ASSERT_FALSE(refused) << begin;
    EXPECT_EQ(refused.error().code, Code::kInvalid);
  }
  EXPECT_THAT(protection_in(kMaps, 0x2000, 0x3000).error().message, HasSubstr("those at 0x4000"));
  EXPECT_FALSE(protection_in("", 0x1000, 1));
  EXPECT_FALSE(protection_in("1000", 0x1000, 1));
  EXPECT_FALSE(protection_in("1000-2000", 0x1000, 1));
}

TEST(Protection, OfThisProcess) {
  const Areas areas("wwrw-w ");
  const auto agree = [&](size_t first, size_t pages) {
    const std::byte* data = areas.at(first) + 7;
    const uint64_t bytes = pages * Areas::kPage - 7;
    auto asked = protection_of(data, bytes);
    const auto read =
        protection_in(maps_of_this_process(), reinterpret_cast<uintptr_t>(data), bytes);
    EXPECT_EQ(asked.has_value(), read.has_value());
    EXPECT_EQ(asked.value_or(Protection::kReadOnly), read.value_or(Protection::kReadOnly));
    return asked;
  };
  EXPECT_EQ(agree(0, 2), Protection::kReadWrite);
  EXPECT_EQ(agree(0, 4), Protection::kReadOnly);
  EXPECT_EQ(agree(3, 1), Protection::kReadWrite);
  EXPECT_FALSE(agree(3, 2));
  EXPECT_FALSE(agree(0, 7));
  EXPECT_FALSE(protection_of(reinterpret_cast<void*>(Areas::kPage), 1));  // nothing is mapped there
}

}  // namespace
}  // namespace farpage
