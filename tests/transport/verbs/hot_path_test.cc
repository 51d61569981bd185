#include "base/units.h"
#include "tests/support/allocations.h"
#include "tests/support/posting.h"
#include "tests/transport/verbs/verbs_backends.h"

namespace farpage::contract {
namespace {

class VerbsHotPath : public ContractTest {
 protected:
  // Whether all went well.
  static bool read_all(Initiator& initiator, std::span<const Operation> reads) {
    std::array<Completion, 64> some;
    size_t posted = 0;
    size_t well = 0;
    size_t ended = 0;
    while (ended < reads.size()) {
      posted += post_operations(initiator, reads.subspan(posted)).accepted;
      const size_t count = initiator.poll(some);
      for (size_t i = 0; i < count; ++i) well += some[i].outcome == Outcome::kOk;
      ended += count;
      if (count == 0) initiator.wait(boottime_clock().now_ns() + kSecond);
    }
    return well == reads.size();
  }
};

INSTANTIATE_TEST_SUITE_P(Verbs, VerbsHotPath, testing::Values(over_the_network(), two_devices()),
                         backend_name);

TEST_P(VerbsHotPath, PostPollAndWaitAllocateNothing) {
  constexpr uint64_t kReads = 1'000;
  Link link = make_link(ChannelPurpose::kRead, kMiB);
  std::vector<Operation> reads;
  for (uint64_t i = 0; i < kReads; ++i) reads.push_back(read_operation(link, i, i, 1000, i));
  reads.push_back(read_operation(link, 0, 0, kMiB));  // in parts
  ASSERT_TRUE(read_all(*link.initiator, reads));
  bool well = false;
  EXPECT_EQ(allocations_of([&] { well = read_all(*link.initiator, reads); }), 0u);
  EXPECT_TRUE(well);
}

TEST_P(VerbsHotPath, WritesAndTheirImmediatesAllocateNothing) {
  constexpr uint64_t kWrites = 64;
  Link link = make_link(ChannelPurpose::kStage, 4096);
  std::vector<Operation> writes;
  for (uint64_t i = 0; i < kWrites; ++i) {
    writes.push_back(write_operation(link, 0, 0, 4096, i));
    writes.back().has_immediate = true;
  }
  uint64_t arrived = 0;
  const auto write_all = [&] {
    if (!read_all(*link.initiator, writes)) return;
    std::array<uint32_t, 64> some;
    for (size_t count = 0; count < kWrites;) {
      link.target->wait(boottime_clock().now_ns() + kSecond);
      const size_t now = link.target->poll(some);
      if (now == 0) return;
      count += now;
      arrived += now;
    }
  };
  write_all();
  EXPECT_EQ(allocations_of(write_all), 0u);
  EXPECT_EQ(arrived, 2 * kWrites);
}

}  // namespace
}  // namespace farpage::contract
