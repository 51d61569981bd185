#include <array>

#include "base/units.h"
#include "tests/support/posting.h"
#include "tests/transport/contract/contract.h"
#include "transport/shm/shm_fabric.h"

namespace farpage::contract {
namespace {

class ShmHarness : public Harness {
 public:
  Fabric& passive() override { return *passive_; }
  Fabric& active() override { return *active_; }
  const Clock& clock() const override { return boottime_clock(); }
  void settle() override {}  // bytes move inside poll() alone

 private:
  std::unique_ptr<Fabric> passive_ = shm::make_shm_fabric();
  std::unique_ptr<Fabric> active_ = shm::make_shm_fabric();
};

const Backend kShm{"shm", [] { return std::make_unique<ShmHarness>(); }};

}  // namespace

class ShmDeadlines : public ContractTest {};

// However much is to be copied before its turn comes.
TEST_P(ShmDeadlines, LateReadDoesNotWaitForThoseWithMoreTime) {
  constexpr uint64_t kBytes = 64 * kKiB;
  constexpr uint64_t kLong = 8;
  Link link = make_link(ChannelPurpose::kRead, (kLong + 2) * kBytes);
  const auto post = [&](uint64_t tag, uint64_t deadline_ns) {
    const Operation operation = read_operation(link, tag * kBytes, tag * kBytes, kBytes, tag);
    ASSERT_EQ(post_operations(*link.initiator, {&operation, 1}, deadline_ns).accepted, 1u);
  };
  for (uint64_t tag = 0; tag < kLong; ++tag) post(tag, soon());
  post(kLong, harness_->clock().now_ns());
  post(kLong + 1, soon());
  std::array<Completion, 1> first;
  ASSERT_EQ(link.initiator->poll(first), 1u);
  EXPECT_EQ(first[0].tag, kLong);
  EXPECT_EQ(first[0].outcome, Outcome::kAborted);
  EXPECT_TRUE(untouched(link.memory)) << "nothing was copied before";
  const auto others = collect(*link.initiator, kLong + 1);
  EXPECT_TRUE(all_ok(others));
  EXPECT_EQ(tags(others), (std::multiset<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, kLong + 1}));
  std::array<Completion, 1> none;
  EXPECT_EQ(link.initiator->poll(none), 0u);
}

INSTANTIATE_TEST_SUITE_P(Shm, ShmDeadlines, testing::Values(kShm), backend_name);
INSTANTIATE_TEST_SUITE_P(Shm, FabricContract, testing::Values(kShm), backend_name);
INSTANTIATE_TEST_SUITE_P(Shm, ClosingContract, testing::Values(kShm), backend_name);
INSTANTIATE_TEST_SUITE_P(Shm, ProtectionContract, testing::Values(kShm), backend_name);
INSTANTIATE_TEST_SUITE_P(Shm, PushContract, testing::Values(kShm), backend_name);
INSTANTIATE_TEST_SUITE_P(Shm, ChecksumContract, testing::Values(kShm), backend_name);

}  // namespace farpage::contract
