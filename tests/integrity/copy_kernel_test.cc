#include "integrity/copy_kernel.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "integrity/fold_constants.h"

namespace farpage {

void PrintTo(const CopyKernel& kernel, std::ostream* out) {
  *out << kernel.name;
}

namespace {

constexpr size_t kMostBytes = 200 * 1024;
constexpr size_t kAlignments = 64;
constexpr size_t kGuardBytes = 64;
constexpr unsigned char kUntouched = 0xA5;

// The truth: RFC 3720's polynomial, bit by bit, eight steps at a time from a table.
uint32_t reference_crc32c(uint32_t crc, const unsigned char* data, size_t bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> steps{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t state = byte;
      for (int bit = 0; bit < 8; ++bit) state = state >> 1 ^ ((state & 1) != 0 ? 0x82F63B78 : 0);
      steps[byte] = state;
    }
    return steps;
  }();
  uint32_t state = ~crc;
  for (size_t i = 0; i < bytes; ++i) state = state >> 8 ^ table[(state ^ data[i]) & 0xFF];
  return ~state;
}

static_assert(power_of_x(0) == 0x80000000);
static_assert(power_of_x(31) == 1);
static_assert(power_of_x(32) == kReflectedCastagnoli);

// Memory between two pages that nobody may touch.
class FencedMemory {
 public:
  explicit FencedMemory(size_t bytes) : page_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))) {
    bytes_ = (bytes + page_ - 1) / page_ * page_;
    void* mapped =
        ::mmap(nullptr, bytes_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(mapped, MAP_FAILED);
    begin_ = static_cast<unsigned char*>(mapped) + page_;
    EXPECT_EQ(::mprotect(begin_, bytes_, PROT_READ | PROT_WRITE), 0);
  }
  ~FencedMemory() { ::munmap(begin_ - page_, bytes_ + 2 * page_); }
  FencedMemory(const FencedMemory&) = delete;
  FencedMemory& operator=(const FencedMemory&) = delete;

  unsigned char* begin() const { return begin_; }
  unsigned char* end() const { return begin_ + bytes_; }
  size_t bytes() const { return bytes_; }
  void fill(std::mt19937_64& random) const {
    for (unsigned char* at = begin_; at != end(); at += sizeof(uint64_t)) {
      const uint64_t word = random();
      std::copy_n(reinterpret_cast<const unsigned char*>(&word), sizeof word, at);
    }
  }

 private:
  size_t page_;
  size_t bytes_;
  unsigned char* begin_;
};

// Memory that is mapped at two places: one for the kernel, one for the peer who writes meanwhile.
class TwiceMapped {
 public:
  explicit TwiceMapped(size_t bytes) : bytes_(bytes) {
    const int file = ::memfd_create("copy_kernel_test", MFD_CLOEXEC);
    EXPECT_GE(file, 0);
    EXPECT_EQ(::ftruncate(file, static_cast<off_t>(bytes)), 0);
    for (unsigned char*& place : places_) {
      void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      EXPECT_NE(mapped, MAP_FAILED);
      place = static_cast<unsigned char*>(mapped);
    }
    ::close(file);
  }
  ~TwiceMapped() {
    for (unsigned char* place : places_) ::munmap(place, bytes_);
  }
  TwiceMapped(const TwiceMapped&) = delete;
  TwiceMapped& operator=(const TwiceMapped&) = delete;

  unsigned char* ours() const { return places_[0]; }
  unsigned char* peers() const { return places_[1]; }

 private:
  size_t bytes_;
  std::array<unsigned char*, 2> places_{};
};

class EachCopyKernel : public testing::TestWithParam<CopyKernel> {
 protected:
  void SetUp() override {
    if (!GetParam().available) {
      GTEST_SKIP() << "hardware: " << GetParam().name << " needs " << GetParam().needs
                   << ", and this processor or system lacks it";
    }
  }

  // Copies, and compares result, copy and surroundings with the truth.
  static void expect_exact(uint32_t crc, unsigned char* to, const unsigned char* from, size_t bytes,
                           Stores stores, size_t guard_before, size_t guard_after) {
    std::fill(to - guard_before, to + bytes + guard_after, kUntouched);
    const uint32_t got = GetParam().copy(crc, to, from, bytes, stores);
    ASSERT_EQ(got, reference_crc32c(crc, from, bytes));
    ASSERT_TRUE(std::equal(from, from + bytes, to));
    const auto is_untouched = [](unsigned char byte) { return byte == kUntouched; };
    ASSERT_TRUE(std::all_of(to - guard_before, to, is_untouched));
    ASSERT_TRUE(std::all_of(to + bytes, to + bytes + guard_after, is_untouched));
  }
};

constexpr std::array kBothStores = {Stores::kKept, Stores::kStreamed};

// RFC 3720, B.4.
TEST_P(EachCopyKernel, AgreesWithTheStandard) {
  std::array<unsigned char, 32> source{};
  std::array<unsigned char, 48> landed{};
  const auto crc = [&](const void* from, size_t bytes) {
    return GetParam().copy(0, landed.data(), from, bytes, Stores::kKept);
  };
  EXPECT_EQ(crc(source.data(), source.size()), 0x8A9136AAu);
  source.fill(0xFF);
  EXPECT_EQ(crc(source.data(), source.size()), 0x62A8AB43u);
  std::iota(source.begin(), source.end(), static_cast<unsigned char>(0));
  EXPECT_EQ(crc(source.data(), source.size()), 0x46DD794Eu);
  std::iota(source.rbegin(), source.rend(), static_cast<unsigned char>(0));
  EXPECT_EQ(crc(source.data(), source.size()), 0x113FDB5Cu);
  constexpr std::array<unsigned char, 48> kReadCommand = {
      0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0,
      0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0,    0};
  EXPECT_EQ(crc(kReadCommand.data(), kReadCommand.size()), 0xD9963A56u);
  EXPECT_EQ(crc("123456789", 9), 0xE3069283u);
  EXPECT_EQ(crc("", 0), 0u);
}

TEST_P(EachCopyKernel, IsExactAtEveryAlignmentOfBothEnds) {
  constexpr size_t kLongest = 1200;
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const FencedMemory source(kLongest + kAlignments);
  const FencedMemory destination(kLongest + kAlignments + 2 * kGuardBytes);
  source.fill(random);
  for (size_t from = 0; from < kAlignments; ++from) {
    for (size_t to = 0; to < kAlignments; ++to) {
      const size_t bytes = random() % (kLongest + 1);
      SCOPED_TRACE(testing::Message() << "from " << from << ", to " << to << ", bytes " << bytes);
      ASSERT_NO_FATAL_FAILURE(expect_exact(
          static_cast<uint32_t>(random()), destination.begin() + kGuardBytes + to,
          source.begin() + from, bytes, kBothStores[random() % 2], kGuardBytes, kGuardBytes));
    }
  }
}

TEST_P(EachCopyKernel, ReadsAndWritesNothingInFrontOrBehind) {
  constexpr size_t kLongest = 1200;
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const FencedMemory source(kLongest);
  const FencedMemory destination(kLongest);
  source.fill(random);
  for (size_t bytes = 0; bytes <= kLongest; ++bytes) {
    SCOPED_TRACE(testing::Message() << "bytes " << bytes);
    const auto crc = static_cast<uint32_t>(random());
    for (const Stores stores : kBothStores) {
      ASSERT_NO_FATAL_FAILURE(expect_exact(crc, destination.end() - bytes, source.end() - bytes,
                                           bytes, stores, kGuardBytes, 0));
      ASSERT_NO_FATAL_FAILURE(
          expect_exact(crc, destination.begin(), source.begin(), bytes, stores, 0, kGuardBytes));
    }
  }
}

TEST_P(EachCopyKernel, IsExactAtRandomLengths) {
  const FencedMemory source(kMostBytes + kAlignments);
  const FencedMemory destination(kMostBytes + kAlignments + 2 * kGuardBytes);
  EXPECT_TRUE(rc::check([&](uint64_t seed, uint32_t crc, bool streams) {
    std::mt19937_64 random(seed);
    source.fill(random);
    const size_t bytes = random() % (kMostBytes + 1);
    const size_t from = random() % kAlignments;
    const size_t to = kGuardBytes + random() % kAlignments;
    expect_exact(crc, destination.begin() + to, source.begin() + from, bytes,
                 kBothStores[streams ? 1 : 0], kGuardBytes, kGuardBytes);
    RC_ASSERT(!HasFatalFailure());
  }));
}

TEST_P(EachCopyKernel, ChecksWhatItStoredWhileThePeerWritesToTheSource) {
  constexpr size_t kBytes = 16 * 1024 + 77;
  constexpr int kCopies = 400;
  const TwiceMapped source(kBytes);
  std::vector<unsigned char> landed(kBytes);
  std::atomic<bool> done = false;
  std::thread peer([&] {
    std::mt19937_64 random(1);
    while (!done.load(std::memory_order_relaxed)) {
      std::atomic_ref(source.peers()[random() % kBytes])
          .store(static_cast<unsigned char>(random()), std::memory_order_relaxed);
    }
  });
  int wrong = 0;
  for (int i = 0; i < kCopies; ++i) {
    const uint32_t crc =
        GetParam().copy(0, landed.data(), source.ours(), kBytes, kBothStores[i % 2]);
    wrong += crc != reference_crc32c(0, landed.data(), kBytes) ? 1 : 0;
  }
  done = true;
  peer.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Integrity, EachCopyKernel, testing::ValuesIn(copy_kernels()),
                         [](const testing::TestParamInfo<CopyKernel>& info) {
                           std::string name = info.param.name;
                           std::erase(name, '-');
                           return name;
                         });

TEST(CopyKernels, TheLastIsThereOnEveryProcessor) {
  ASSERT_FALSE(copy_kernels().empty());
  EXPECT_TRUE(copy_kernels().back().available);
  EXPECT_STREQ(copy_kernels().back().name, "isa-l");
}

RC_GTEST_PROP(CopyUnchecked, IsWholeAndLeavesItsSurroundings, (uint64_t seed)) {
  std::mt19937_64 random(seed);
  const FencedMemory source(kMostBytes + kAlignments);
  const FencedMemory destination(kMostBytes + kAlignments + kGuardBytes);
  source.fill(random);
  std::fill(destination.begin(), destination.end(), kUntouched);
  const size_t bytes = random() % (kMostBytes + 1);
  const unsigned char* const from = source.end() - bytes - random() % kAlignments;
  unsigned char* const to = destination.begin() + kGuardBytes + random() % kAlignments;
  copy_unchecked(to, from, bytes, kBothStores[random() % 2]);
  RC_ASSERT(std::equal(from, from + bytes, to));
  const auto is_untouched = [](unsigned char byte) { return byte == kUntouched; };
  RC_ASSERT(std::all_of(destination.begin(), to, is_untouched));
  RC_ASSERT(std::all_of(to + bytes, destination.end(), is_untouched));
}

}  // namespace
}  // namespace farpage
