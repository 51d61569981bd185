#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "integrity/crc32c.h"
#include "integrity/page_header.h"
#include "sim/fault/fault_fabric.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/support/posting.h"
#include "tests/transport/contract/contract.h"
#include "transport/shm/shm_fabric.h"

namespace farpage::fault {
namespace {

constexpr uint64_t kPayload = 512;
constexpr uint64_t kSlot = sizeof(PageHeader) + kPayload;
constexpr uint64_t kSlots = 4;
constexpr uint64_t kPatience = kSecond;

PageKey key_of(uint64_t slot) {
  return make_page_key("fault", std::to_string(slot));
}

// A pool of pages at a server, and a client whose fabric has faults.
class FaultTest : public ::testing::Test {
 protected:
  explicit FaultTest(uint64_t seed = 1) : world_(seed), faulty_(client_, world_.clock(), seed) {
    pool_ = server_.allocate_readable(kSlots * kSlot).value();
    for (uint64_t slot = 0; slot < kSlots; ++slot) put(slot, key_of(slot), slot);
    local_ = faulty_.register_local({memory_.data(), memory_.size()}).value();
    auto offered = server_.offer_channel(ChannelPurpose::kRead).value();
    target_ = std::move(offered.target);
    initiator_ = faulty_.connect(std::move(offered.offer), kNever).value();
    remote_ = import_whole(*initiator_, server_.export_region(pool_).value()).value();
  }

  void put(uint64_t slot, const PageKey& key, uint64_t salt) {
    std::byte* at = pool_.data() + slot * kSlot;
    contract::fill(at + sizeof(PageHeader), kPayload, salt);
    const PageHeader header =
        make_page_header(key, 1 + salt, 7, kPayload, crc32c(0, at + sizeof(PageHeader), kPayload));
    std::memcpy(at, &header, sizeof header);
  }
  std::span<const std::byte> stored(uint64_t slot) const {
    return {pool_.data() + slot * kSlot, kSlot};
  }
  std::span<const std::byte> landed(uint64_t slot) const {
    return {memory_.data() + slot * kSlot, kSlot};
  }

  void plan(FaultKind kind, uint64_t most = kNever) {
    FaultPlan plan;
    plan.of(kind) = 1;
    plan.most = most;
    faulty_.set_plan(plan);
  }
  uint64_t injected(FaultKind kind) const { return faulty_.injected().of(kind); }

  Operation read_page(uint64_t slot, uint64_t tag = 0) const {
    Operation operation;
    operation.local_count = 2;
    operation.tag = tag;
    operation.remote = remote_;
    operation.remote_offset = slot * kSlot;
    operation.local[0] = local_.slice(slot * kSlot, sizeof(PageHeader));
    operation.local[1] = local_.slice(slot * kSlot + sizeof(PageHeader), kPayload);
    return operation;
  }
  void post(const Operation& operation) {
    ASSERT_EQ(post_operations(*initiator_, {&operation, 1}).accepted, 1u);
  }
  // The completions that come within so much time.
  std::vector<Completion> collect(uint64_t for_ns = kPatience) {
    std::vector<Completion> all;
    const uint64_t end = world_.now_ns() + for_ns;
    do {
      std::array<Completion, 16> some;
      const size_t count = initiator_->poll(some);
      all.insert(all.end(), some.begin(), some.begin() + count);
      initiator_->wait(end);
    } while (world_.now_ns() < end);
    return all;
  }
  Completion read(uint64_t slot) {
    std::ranges::fill(memory_, contract::kUntouched);
    post(read_page(slot, slot));
    const std::vector<Completion> ended = collect();
    EXPECT_EQ(ended.size(), 1u);
    EXPECT_TRUE(ended.empty() || ended[0].tag == slot);
    return ended.empty() ? Completion() : ended[0];
  }

  static uint64_t bits_that_differ(std::span<const std::byte> a, std::span<const std::byte> b) {
    uint64_t bits = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      bits += static_cast<uint64_t>(std::popcount(static_cast<uint8_t>(a[i] ^ b[i])));
    }
    return bits;
  }

  sim::World world_;
  sim::SimFabric server_{world_, {}};
  sim::SimFabric client_{world_, {}};
  FaultFabric faulty_;
  Region pool_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kSlots * kSlot);
  Region local_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<Initiator> initiator_;
  RemoteRegion remote_;
};

TEST_F(FaultTest, NoPlanChangesNothing) {
  EXPECT_EQ(read(1).outcome, Outcome::kOk);
  EXPECT_TRUE(std::ranges::equal(landed(1), stored(1)));
}

TEST_F(FaultTest, FlippedHeaderIsOneBitOfTheHeader) {
  plan(FaultKind::kFlippedHeader);
  EXPECT_EQ(read(1).outcome, Outcome::kOk);
  EXPECT_EQ(bits_that_differ(landed(1).first(64), stored(1).first(64)), 1u);
  EXPECT_TRUE(std::ranges::equal(landed(1).subspan(64), stored(1).subspan(64)));
  EXPECT_EQ(injected(FaultKind::kFlippedHeader), 1u);
}

TEST_F(FaultTest, FlippedPayloadIsOneBitOfThePayload) {
  plan(FaultKind::kFlippedPayload);
  EXPECT_EQ(read(1).outcome, Outcome::kOk);
  EXPECT_TRUE(std::ranges::equal(landed(1).first(64), stored(1).first(64)));
  EXPECT_EQ(bits_that_differ(landed(1), stored(1)), 1u);
  EXPECT_EQ(injected(FaultKind::kFlippedPayload), 1u);
}

TEST_F(FaultTest, FlippedAtRestStaysThere) {
  FaultFabric serving(server_, world_.clock(), 1);
  EXPECT_FALSE(serving.flip_at_rest());
  std::optional<Region> region = serving.allocate_readable(4096).value();
  const auto flipped = serving.flip_at_rest();
  ASSERT_TRUE(flipped);
  const std::vector<std::byte> zeros(4096);
  EXPECT_EQ(bits_that_differ({region->data(), 4096}, zeros), 1u);
  EXPECT_EQ(serving.injected().of(FaultKind::kFlippedAtRest), 1u);
  EXPECT_TRUE(serving.export_region(*region));
  EXPECT_FALSE(flipped->memory.expired());
  region.reset();
  EXPECT_TRUE(flipped->memory.expired());
  EXPECT_FALSE(serving.flip_at_rest()) << "into memory that is no more";
}

TEST_F(FaultTest, TornHasTheHeadOfOnePageAndTheTailOfAnother) {
  read(0);
  plan(FaultKind::kTorn);
  EXPECT_EQ(read(1).outcome, Outcome::kOk);
  EXPECT_TRUE(std::ranges::equal(landed(1).first(64), stored(1).first(64)));
  EXPECT_FALSE(std::ranges::equal(landed(1), stored(1)));
  const auto tail = landed(1).last(64);
  EXPECT_TRUE(std::ranges::equal(tail, stored(0).last(64)));
  EXPECT_EQ(injected(FaultKind::kTorn), 1u);
}

TEST_F(FaultTest, TornCanHaveTheTailOfAnOlderPageOfTheSameKey) {
  read(1);
  put(1, key_of(1), 9);
  plan(FaultKind::kTorn);
  EXPECT_EQ(read(1).outcome, Outcome::kOk);
  EXPECT_TRUE(std::ranges::equal(landed(1).first(64), stored(1).first(64)));
  EXPECT_FALSE(std::ranges::equal(landed(1), stored(1)));
}

TEST_F(FaultTest, TornNeedsAnotherPage) {
  plan(FaultKind::kTorn);
  EXPECT_EQ(read(1).outcome, Outcome::kOk);
  EXPECT_TRUE(std::ranges::equal(landed(1), stored(1)));
  EXPECT_EQ(injected(FaultKind::kTorn), 0u);
}

TEST_F(FaultTest, StaleSlotIsWhatAnotherSlotHoldsNow) {
  read(0);
  put(0, key_of(0), 9);
  plan(FaultKind::kStaleSlot);
  EXPECT_EQ(read(1).outcome, Outcome::kOk);
  EXPECT_TRUE(std::ranges::equal(landed(1), stored(0)));
  EXPECT_EQ(injected(FaultKind::kStaleSlot), 1u);
}

TEST_F(FaultTest, StaleSlotNeedsAnotherSlot) {
  read(1);
  plan(FaultKind::kStaleSlot);
  EXPECT_EQ(read(1).outcome, Outcome::kOk);
  EXPECT_TRUE(std::ranges::equal(landed(1), stored(1)));
  EXPECT_EQ(injected(FaultKind::kStaleSlot), 0u);
}

TEST_F(FaultTest, ShortReadLeavesTheTailAsItWas) {
  plan(FaultKind::kShort);
  EXPECT_EQ(read(1).outcome, Outcome::kOk);
  EXPECT_TRUE(std::ranges::equal(landed(1).first(64), stored(1).first(64)));
  const auto is_untouched = [](std::byte byte) { return byte == contract::kUntouched; };
  EXPECT_TRUE(std::ranges::all_of(landed(1).last(64), is_untouched));
  EXPECT_EQ(injected(FaultKind::kShort), 1u);
}

// A node that keeps headers and payloads apart has each page read by two operations.
class PagesInTwoReads : public FaultTest {
 protected:
  Operation read_header(uint64_t slot) const {
    Operation operation = read_page(slot);
    operation.local_count = 1;
    return operation;
  }
  Operation read_payload(uint64_t slot) const {
    Operation operation = read_page(slot);
    operation.local_count = 1;
    operation.local[0] = operation.local[1];
    operation.remote_offset += sizeof(PageHeader);
    return operation;
  }
  void read_both(uint64_t slot) {
    std::ranges::fill(memory_, contract::kUntouched);
    post(read_header(slot));
    post(read_payload(slot));
    for (const Completion& ended : collect()) EXPECT_EQ(ended.outcome, Outcome::kOk);
  }
  bool header_is_right(uint64_t slot) const {
    return std::ranges::equal(landed(slot).first(64), stored(slot).first(64));
  }
  bool payload_is_of(uint64_t read, uint64_t slot) const {
    return std::ranges::equal(landed(read).subspan(64), stored(slot).subspan(64));
  }
};

TEST_F(PagesInTwoReads, EachPartIsFlippedByItsOwnKind) {
  plan(FaultKind::kFlippedHeader);
  read_both(1);
  EXPECT_EQ(bits_that_differ(landed(1).first(64), stored(1).first(64)), 1u);
  EXPECT_TRUE(payload_is_of(1, 1));
  EXPECT_EQ(injected(FaultKind::kFlippedHeader), 1u);
  plan(FaultKind::kFlippedPayload);
  read_both(1);
  EXPECT_TRUE(header_is_right(1));
  EXPECT_EQ(bits_that_differ(landed(1), stored(1)), 1u);
  EXPECT_EQ(injected(FaultKind::kFlippedPayload), 1u);
}

TEST_F(PagesInTwoReads, PayloadIsTornOrShort) {
  read_both(0);
  plan(FaultKind::kTorn);
  read_both(1);
  EXPECT_TRUE(header_is_right(1));
  EXPECT_FALSE(payload_is_of(1, 1));
  EXPECT_TRUE(std::ranges::equal(landed(1).last(64), stored(0).last(64)));
  EXPECT_EQ(injected(FaultKind::kTorn), 1u);
  plan(FaultKind::kShort);
  read_both(1);
  EXPECT_TRUE(header_is_right(1));
  const auto is_untouched = [](std::byte byte) { return byte == contract::kUntouched; };
  EXPECT_TRUE(std::ranges::all_of(landed(1).last(64), is_untouched));
  EXPECT_EQ(injected(FaultKind::kShort), 1u);
}

TEST_F(PagesInTwoReads, StalePayloadIsThatOfAnotherSlot) {
  read_both(0);
  plan(FaultKind::kStaleSlot);
  read_both(1);
  EXPECT_TRUE(header_is_right(1));
  EXPECT_TRUE(payload_is_of(1, 0));
  EXPECT_EQ(injected(FaultKind::kStaleSlot), 1u);
}

TEST_F(FaultTest, NothingLandsAndItEndsWell) {
  plan(FaultKind::kNothing);
  EXPECT_EQ(read(1).outcome, Outcome::kOk);
  EXPECT_TRUE(contract::untouched(memory_));
  EXPECT_EQ(injected(FaultKind::kNothing), 1u);
}

TEST_F(FaultTest, LateComesLaterThanTheBytes) {
  plan(FaultKind::kLate);
  post(read_page(1));
  const uint64_t posted = world_.now_ns();
  std::array<Completion, 1> completion;
  while (initiator_->poll(completion) == 0) initiator_->wait(kNever);
  EXPECT_GT(world_.now_ns(), posted + kMillisecond);  // the network takes 30 µs at most
  EXPECT_TRUE(std::ranges::equal(landed(1), stored(1)));
  EXPECT_EQ(injected(FaultKind::kLate), 1u);
}

TEST_F(FaultTest, LostEndsWhenTheChannelIsClosed) {
  plan(FaultKind::kLost);
  post(read_page(1, 5));
  EXPECT_TRUE(collect(100 * kSecond).empty());
  initiator_->close();
  const std::vector<Completion> ended = collect();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, Outcome::kAborted);
  EXPECT_EQ(ended[0].tag, 5u);
}

TEST_F(FaultTest, DuplicatedComesTwice) {
  plan(FaultKind::kDuplicated);
  post(read_page(1, 5));
  const std::vector<Completion> ended = collect();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].tag, 5u);
  EXPECT_EQ(ended[1].tag, 5u);
  EXPECT_EQ(injected(FaultKind::kDuplicated), 1u);
}

TEST_F(FaultTest, ReorderedComesAfterAnotherThatWasPostedLater) {
  FaultPlan late_first;
  late_first.of(FaultKind::kReordered) = 1;
  late_first.most = 1;
  late_first.reorder_max_ns = kSecond;
  faulty_.set_plan(late_first);
  post(read_page(0, 0));
  post(read_page(1, 1));
  const std::vector<Completion> ended = collect();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].tag, 1u);
  EXPECT_EQ(ended[1].tag, 0u);
}

TEST_F(FaultTest, FailedIsNotCarriedOut) {
  plan(FaultKind::kFailed);
  EXPECT_EQ(read(1).outcome, Outcome::kFailed);
  EXPECT_TRUE(contract::untouched(memory_));
}

TEST_F(FaultTest, ThereAreNoMoreThanThePlanAllows) {
  plan(FaultKind::kFlippedPayload, 2);
  for (uint64_t i = 0; i < 5; ++i) read(i % kSlots);
  EXPECT_EQ(injected(FaultKind::kFlippedPayload), 2u);
}

TEST_F(FaultTest, OneThatCannotBeMadeIsNotUsedUp) {
  plan(FaultKind::kFlippedPayload, 1);
  Operation header_only = read_page(1);
  header_only.local_count = 1;
  post(header_only);
  EXPECT_EQ(collect().size(), 1u);
  read(1);
  EXPECT_EQ(injected(FaultKind::kFlippedPayload), 1u);
}

TEST_F(FaultTest, SlowPeerDelaysEveryCompletion) {
  FaultPlan slow;
  slow.delay_ns = kMillisecond;
  faulty_.set_plan(slow);
  post(read_page(1));
  EXPECT_TRUE(collect(kMillisecond).empty());
  EXPECT_EQ(collect().size(), 1u);
}

TEST_F(FaultTest, BandwidthSpacesCompletions) {
  FaultPlan narrow;
  narrow.bytes_per_s = kSlot * 10;  // a page takes 100 ms
  faulty_.set_plan(narrow);
  for (uint64_t slot = 0; slot < kSlots; ++slot) post(read_page(slot, slot));
  EXPECT_EQ(collect(250 * kMillisecond).size(), 2u);
  EXPECT_EQ(collect(200 * kMillisecond).size(), 2u);
}

TEST_F(FaultTest, StoppedPeersAnswerNothingUntilTheyGoOn) {
  post(read_page(1));
  faulty_.stop_peers();
  EXPECT_TRUE(collect(10 * kSecond).empty());
  faulty_.resume_peers();
  EXPECT_EQ(collect().size(), 1u);
}

TEST_F(FaultTest, FlippedWriteLeavesTheSourceAsItIs) {
  auto offered = server_.offer_channel(ChannelPurpose::kStage).value();
  const Region staging = offered.target->allocate_writable(4096).value();
  const auto channel = faulty_.connect(std::move(offered.offer), kNever).value();
  Operation write;
  write.kind = OperationKind::kWrite;
  write.remote = import_whole(*channel, server_.export_region(staging).value()).value();
  write.local_count = 1;
  write.local[0] = local_.slice(0, kSlot);
  contract::fill(memory_.data(), kSlot, 3);
  plan(FaultKind::kFlippedWrite);
  ASSERT_EQ(post_operations(*channel, {&write, 1}).accepted, 1u);
  std::array<Completion, 1> completion;
  while (channel->poll(completion) == 0) channel->wait(kNever);
  EXPECT_EQ(completion[0].outcome, Outcome::kOk);
  EXPECT_EQ(bits_that_differ({staging.data(), kSlot}, landed(0)), 1u);
  EXPECT_EQ(contract::first_difference(memory_.data(), kSlot, 0, 3), kSlot);
  EXPECT_EQ(injected(FaultKind::kFlippedWrite), 1u);
}

TEST_F(FaultTest, SameSeedMakesTheSameFaults) {
  const auto history = [](uint64_t seed) {
    struct Run : FaultTest {
      explicit Run(uint64_t of) : FaultTest(of) {}
      void TestBody() override {}
      std::vector<std::byte> bytes() {
        FaultPlan plan;
        plan.of(FaultKind::kFlippedHeader) = 0.2;
        plan.of(FaultKind::kFlippedPayload) = 0.2;
        plan.of(FaultKind::kShort) = 0.2;
        faulty_.set_plan(plan);
        std::vector<std::byte> all;
        for (uint64_t i = 0; i < 20; ++i) {
          read(i % kSlots);
          all.insert(all.end(), memory_.begin(), memory_.end());
        }
        return all;
      }
    };
    return Run(seed).bytes();
  };
  EXPECT_EQ(history(4), history(4));
  EXPECT_NE(history(4), history(5));
}

// A backend that sums what lands tells of what landed, damage and all.
TEST(FaultOverShm, ChecksumIsOfWhatLanded) {
  const auto server = shm::make_shm_fabric();
  const auto client = shm::make_shm_fabric();
  FaultFabric faulty(*client, boottime_clock(), 1);
  const Region pool = server->allocate_readable(kSlot).value();
  contract::fill(pool.data(), kSlot, 1);
  auto offered = server->offer_channel(ChannelPurpose::kRead).value();
  const auto channel = faulty.connect(std::move(offered.offer), kNever).value();
  std::vector<std::byte> memory(kSlot);
  const Region local = faulty.register_local({memory.data(), kSlot}).value();
  Operation read;
  read.remote = import_whole(*channel, server->export_region(pool).value()).value();
  read.local_count = 2;
  read.local[0] = local.slice(0, 64);
  read.local[1] = local.slice(64, kPayload);
  read.wants_crc = true;
  FaultPlan plan;
  plan.of(FaultKind::kFlippedPayload) = 1;
  faulty.set_plan(plan);
  ASSERT_EQ(post_operations(*channel, {&read, 1}).accepted, 1u);
  std::array<Completion, 1> completion;
  while (channel->poll(completion) == 0) channel->wait(kNever);
  EXPECT_EQ(completion[0].crc, crc32c(0, memory.data() + 64, kPayload));
  EXPECT_NE(completion[0].crc, crc32c(0, pool.data() + 64, kPayload));
}

}  // namespace
}  // namespace farpage::fault
