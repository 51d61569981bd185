#include "tests/transport/contract/contract.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/units.h"
#include "transport/lasting_memory.h"

namespace farpage::contract {
namespace {

uint32_t portable_crc32c(const std::byte* data, uint64_t bytes) {
  uint32_t crc = ~0u;
  for (uint64_t i = 0; i < bytes; ++i) {
    crc ^= static_cast<uint32_t>(data[i]);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

TEST_P(FabricContract, MemoryForPeersIsZeroedAndCarriesItsAccess) {
  Link read = make_link(ChannelPurpose::kRead, 10'000);
  Link stage = make_link(ChannelPurpose::kStage, 10'000);
  for (const Region* region : {&read.remote_region, &stage.remote_region}) {
    EXPECT_EQ(region->bytes(), 10'000u);
    EXPECT_TRUE(std::all_of(region->data(), region->data() + region->bytes(),
                            [](std::byte b) { return b == std::byte{0}; }));
  }
  EXPECT_EQ(read.remote_region.access(), Access::kRemoteRead);
  EXPECT_EQ(stage.remote_region.access(), Access::kRemoteWrite);
  EXPECT_EQ(read.local.access(), Access::kLocal);
}

// A node's memory through two of its processes: the file is all that the second one has of it.
TEST_P(FabricContract, LastingMemoryBeginsWithWhatItsFileHolds) {
  auto* lasting = dynamic_cast<LastingMemory*>(&harness_->passive());
  if (lasting == nullptr) {
    EXPECT_EQ(harness_->passive().capabilities().backend, "ucx") << "the one that has none";
    return;
  }
  constexpr uint64_t kBytes = 8192 + 64;
  UniqueFd file;
  {
    const Region first = lasting->allocate_lasting(kBytes, file).value();
    ASSERT_TRUE(file.valid());
    EXPECT_EQ(std::count(first.data(), first.data() + kBytes, std::byte{0}), int64_t{kBytes});
    std::memset(first.data(), 0x5A, kBytes);
  }
  {
    const Region second = lasting->allocate_lasting(kBytes, file).value();
    EXPECT_EQ(second.access(), Access::kRemoteRead);
    EXPECT_EQ(std::count(second.data(), second.data() + kBytes, std::byte{0x5A}), int64_t{kBytes});
    std::memset(second.data(), 0xA5, kBytes);
    EXPECT_TRUE(harness_->passive().export_region(second).has_value());
  }
  const Region third = lasting->allocate_lasting(kBytes, file).value();
  EXPECT_EQ(std::count(third.data(), third.data() + kBytes, std::byte{0xA5}), int64_t{kBytes});

  // Memory that is not its own is refused, and left as it is.
  const int held = file.get();
  EXPECT_FALSE(lasting->allocate_lasting(kBytes + 64 * kKiB, file).has_value());
  EXPECT_EQ(file.get(), held);
  UniqueFd unsealed(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), static_cast<off_t>(64 * kKiB)), 0);
  EXPECT_FALSE(lasting->allocate_lasting(64 * kKiB, unsealed).has_value());
}

TEST_P(FabricContract, TwoSliceReadLandsHeaderAndPayloadInTheirPlaces) {
  Link link = make_link(ChannelPurpose::kRead, 512 * 1024);
  fill(link.remote_region.data(), link.remote_region.bytes());
  for (const uint64_t payload : {1, 63, 64, 65, 4096, 4097, 65'536, 65'537, 200'000}) {
    for (const uint64_t misalignment : {0, 1, 7, 64}) {
      std::fill(link.memory.begin(), link.memory.end(), kUntouched);
      const uint64_t header_at = 100 + misalignment;
      const uint64_t payload_at = 1000 + 3 * misalignment;
      const uint64_t remote_at = 4096 + 5 * misalignment;
      Operation read = read_operation(link, remote_at, header_at, 64, payload);
      read.local_count = 2;
      read.local[1] = link.local.slice(payload_at, payload);
      ASSERT_EQ(post_all(*link.initiator, {&read, 1}), 1u);
      const auto ended = collect(*link.initiator, 1);
      ASSERT_EQ(ended.size(), 1u);
      ASSERT_TRUE(all_ok(ended));
      EXPECT_EQ(ended[0].tag, payload);

      EXPECT_EQ(first_difference(&link.memory[header_at], 64, remote_at), 64u);
      EXPECT_EQ(first_difference(&link.memory[payload_at], payload, remote_at + 64), payload);
      std::fill_n(link.memory.begin() + header_at, 64, kUntouched);
      std::fill_n(link.memory.begin() + payload_at, payload, kUntouched);
      EXPECT_TRUE(untouched(link.memory)) << "bytes landed outside the slices";
    }
  }
}

TEST_P(FabricContract, EveryOperationCompletesOnceWithItsTag) {
  constexpr uint64_t kCount = 200;
  Link link = make_link(ChannelPurpose::kRead, kCount * 256);
  fill(link.remote_region.data(), link.remote_region.bytes());
  std::vector<Operation> reads;
  for (uint64_t i = 0; i < kCount; ++i) {
    reads.push_back(read_operation(link, i * 256, i * 256, 1 + i % 256, i));
  }
  for (size_t at = 0; at < kCount; at += 40) {
    ASSERT_EQ(post_all(*link.initiator, std::span(reads).subspan(at, 40)), 40u);
  }
  const auto ended = collect(*link.initiator, kCount);
  EXPECT_TRUE(all_ok(ended));
  EXPECT_EQ(tags(ended), tags_up_to(kCount));
  harness_->settle();
  Completion more;
  EXPECT_EQ(link.initiator->poll({&more, 1}), 0u);
}

TEST_P(FabricContract, PostTakesAPrefixWhenFullAndTheRestLater) {
  Link link = make_link(ChannelPurpose::kRead, 4096);
  const uint64_t room = harness_->active().capabilities().max_in_flight;
  ASSERT_GT(room, 0u);
  const uint64_t count = room + 10;
  std::vector<Operation> reads;
  for (uint64_t i = 0; i < count; ++i) reads.push_back(read_operation(link, i % 64, i % 64, 8, i));
  const size_t first = post_all(*link.initiator, reads);
  EXPECT_EQ(first, room);
  EXPECT_EQ(post_all(*link.initiator, std::span(reads).subspan(first)), 0u);
  auto ended = collect(*link.initiator, first);
  size_t posted = first;
  while (posted < count && ended.size() == posted) {
    posted += post_all(*link.initiator, std::span(reads).subspan(posted));
    const auto more = collect(*link.initiator, posted - ended.size());
    ended.insert(ended.end(), more.begin(), more.end());
  }
  EXPECT_TRUE(all_ok(ended));
  EXPECT_EQ(tags(ended), tags_up_to(count));
}

TEST_P(FabricContract, ReadsUpToTheLastByteOfARegion) {
  Link link = make_link(ChannelPurpose::kRead, 10'000);
  fill(link.remote_region.data(), link.remote_region.bytes());
  const std::array reads{read_operation(link, 9'999, 0, 1), read_operation(link, 9'000, 64, 1000),
                         read_operation(link, 0, 0, 10'000)};
  for (const Operation& read : reads) {
    ASSERT_EQ(post_all(*link.initiator, {&read, 1}), 1u);
    ASSERT_TRUE(all_ok(collect(*link.initiator, 1)));
  }
  EXPECT_EQ(first_difference(link.memory.data(), 10'000, 0), 10'000u);
}

TEST_P(FabricContract, ImmediatesComeOnceInOrderAndAfterTheirBytes) {
  constexpr uint64_t kBatches = 20;
  constexpr uint64_t kPart = 700;
  Link link = make_link(ChannelPurpose::kStage, kBatches * 3 * kPart);
  fill(link.memory.data(), link.memory.size());
  std::vector<Operation> writes;
  for (uint64_t i = 0; i < kBatches * 3; ++i) {
    writes.push_back(write_operation(link, i * kPart, i * kPart, kPart, i));
    writes.back().has_immediate = i % 3 == 2;
    writes.back().immediate = static_cast<uint32_t>(0xFFFFFF00 + i);
  }
  ASSERT_EQ(post_all(*link.initiator, writes), writes.size());
  // Some backends move bytes only when the initiator is polled.
  std::vector<Completion> ended;
  for (uint64_t batch = 0; batch < kBatches; ++batch) {
    const auto more = collect(*link.initiator, 3);
    ended.insert(ended.end(), more.begin(), more.end());
    const auto seen = collect(*link.target, 1);
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0], 0xFFFFFF00 + batch * 3 + 2);
    const uint64_t bytes = (batch + 1) * 3 * kPart;
    EXPECT_EQ(first_difference(link.remote_region.data(), bytes, 0), bytes);
  }
  EXPECT_TRUE(all_ok(ended));
  EXPECT_EQ(tags(ended), tags_up_to(kBatches * 3));
  harness_->settle();
  uint32_t more = 0;
  EXPECT_EQ(link.target->poll({&more, 1}), 0u);
}

TEST_P(FabricContract, AWriteWithoutImmediateShowsThePeerNothing) {
  Link link = make_link(ChannelPurpose::kStage, 4096);
  fill(link.memory.data(), link.memory.size());
  Operation write = write_operation(link, 0, 0, 4096);
  write.immediate = 77;
  ASSERT_EQ(post_all(*link.initiator, {&write, 1}), 1u);
  ASSERT_TRUE(all_ok(collect(*link.initiator, 1)));
  harness_->settle();
  uint32_t none = 0;
  EXPECT_EQ(link.target->poll({&none, 1}), 0u);
  EXPECT_EQ(first_difference(link.remote_region.data(), 4096, 0), 4096u);
}

TEST_P(FabricContract, AWriteGathersItsSlices) {
  Link link = make_link(ChannelPurpose::kStage, 8192);
  fill(link.memory.data(), link.memory.size());
  Operation write = write_operation(link, 100, 4000, 64);
  write.local_count = 2;
  write.local[1] = link.local.slice(1, 3000);
  ASSERT_EQ(post_all(*link.initiator, {&write, 1}), 1u);
  ASSERT_TRUE(all_ok(collect(*link.initiator, 1)));
  EXPECT_EQ(first_difference(link.remote_region.data() + 100, 64, 4000), 64u);
  EXPECT_EQ(first_difference(link.remote_region.data() + 164, 3000, 1), 3000u);
  EXPECT_EQ(link.remote_region.data()[3164], std::byte{0});
}

// A node pushes from its pool: it does not register that twice.
TEST_P(PushContract, AReadableRegionIsASourceOfWrites) {
  ASSERT_TRUE(harness_->active().capabilities().pushes);
  Link link = make_link(ChannelPurpose::kStage, 8192);
  auto pool = std::make_optional(harness_->active().allocate_readable(8192).value());
  fill(pool->data(), pool->bytes());
  Operation write = write_operation(link, 100, 0, 0);
  write.local[0] = pool->slice(4000, 3000);
  ASSERT_EQ(post_all(*link.initiator, {&write, 1}), 1u);
  ASSERT_TRUE(all_ok(collect(*link.initiator, 1)));
  EXPECT_EQ(first_difference(link.remote_region.data() + 100, 3000, 4000), 3000u);
  EXPECT_EQ(link.remote_region.data()[99], std::byte{0});
  EXPECT_EQ(link.remote_region.data()[3100], std::byte{0});

  pool.reset();
  EXPECT_TRUE(refused(*link.initiator, write)) << "the memory has gone";
}

// The node's word that nothing of a group was there.
TEST_P(FabricContract, AnImmediateNeedsNoBytes) {
  Link link = make_link(ChannelPurpose::kStage, 4096);
  Operation write = write_operation(link, 0, 0, 0);
  write.local_count = 0;
  write.has_immediate = true;
  write.immediate = 4711;
  ASSERT_EQ(post_all(*link.initiator, {&write, 1}), 1u);
  ASSERT_TRUE(all_ok(collect(*link.initiator, 1)));
  const auto seen = collect(*link.target, 1);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0], 4711u);
}

TEST_P(ChecksumContract, TheChecksumIsThatOfTheLastSliceAsItLanded) {
  ASSERT_TRUE(harness_->active().capabilities().checksums_landing);
  Link link = make_link(ChannelPurpose::kRead, 512 * 1024);
  fill(link.remote_region.data(), link.remote_region.bytes());
  for (const uint64_t payload : {1, 63, 4096, 65'536, 65'537, 300'001}) {
    Operation read = read_operation(link, 128, 0, 64);
    read.local_count = 2;
    read.local[1] = link.local.slice(64, payload);
    read.wants_crc = true;
    ASSERT_EQ(post_all(*link.initiator, {&read, 1}), 1u);
    const auto ended = collect(*link.initiator, 1);
    ASSERT_TRUE(ended.size() == 1 && all_ok(ended));
    EXPECT_EQ(ended[0].crc, portable_crc32c(link.memory.data() + 64, payload));
  }
}

// A backend that copies may do so in another way once it is too much for a cache.
TEST_P(ChecksumContract, ABurstThatNoCacheHoldsLandsAsItWasChecked) {
  constexpr uint64_t kPayload = 64 * 1024;
  constexpr uint64_t kReads = 512;  // 32 MiB
  constexpr uint64_t kPlaces = 7;
  Link link = make_link(ChannelPurpose::kRead, kPlaces * (kPayload + 1));
  fill(link.remote_region.data(), link.remote_region.bytes());
  std::array<uint32_t, kPlaces> expected{};
  for (uint64_t place = 0; place < kPlaces; ++place) {
    expected[place] = portable_crc32c(link.remote_region.data() + place * kPayload, kPayload);
  }
  std::vector<Operation> reads;
  for (uint64_t i = 0; i < kReads; ++i) {
    const uint64_t place = i % kPlaces;
    // One byte further than it lay: to no alignment.
    reads.push_back(read_operation(link, place * kPayload, place * kPayload + 1, kPayload, place));
    reads.back().wants_crc = true;
  }
  ASSERT_EQ(post_all(*link.initiator, reads), kReads);
  const std::vector<Completion> ended = collect(*link.initiator, kReads);
  ASSERT_EQ(ended.size(), kReads);
  ASSERT_TRUE(all_ok(ended));
  for (const Completion& completion : ended) EXPECT_EQ(completion.crc, expected[completion.tag]);
  EXPECT_TRUE(std::equal(link.remote_region.data(), link.remote_region.data() + kPlaces * kPayload,
                         link.memory.data() + 1));
}

// The suite runs for the backends that were built.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FabricContract);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ClosingContract);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ProtectionContract);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PushContract);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ChecksumContract);

}  // namespace
}  // namespace farpage::contract
