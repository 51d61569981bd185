// Operations on the wire: neighbours travel together, and large ones in parts.
#include "base/units.h"
#include "tests/support/posting.h"
#include "tests/transport/verbs/softroce.h"
#include "tests/transport/verbs/verbs_backends.h"
#include "transport/verbs/send_queue.h"

namespace farpage::contract {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kHeaderBytes = 64;

class VerbsRequests : public ContractTest {
 protected:
  // How many packets the active side's device has sent meanwhile: one for each READ.
  template <typename Act>
  static uint64_t requests_of(const Act& act) {
    const uint64_t before = device_counter("rxe0", "sent_pkts");
    act();
    return device_counter("rxe0", "sent_pkts") - before;
  }

  // As a page is read: its header to one place, its payload to another one.
  static Operation page_read(const Link& link, uint64_t remote_offset, uint64_t local_offset,
                             uint64_t bytes, uint64_t tag) {
    Operation read = read_operation(link, remote_offset, local_offset, kHeaderBytes, tag);
    read.local_count = 2;
    read.local[1] = link.local.slice(local_offset + 2 * kHeaderBytes, bytes - kHeaderBytes);
    return read;
  }
  // Where it landed, and nowhere else.
  static void expect_landed(Link& link, uint64_t remote_offset, uint64_t local_offset,
                            uint64_t bytes, uint64_t salt = 0) {
    std::byte* header = &link.memory[local_offset];
    std::byte* payload = header + 2 * kHeaderBytes;
    EXPECT_EQ(first_difference(header, kHeaderBytes, remote_offset, salt), kHeaderBytes);
    EXPECT_EQ(first_difference(payload, bytes - kHeaderBytes, remote_offset + kHeaderBytes, salt),
              bytes - kHeaderBytes);
    std::fill_n(header, kHeaderBytes, kUntouched);
    std::fill_n(payload, bytes - kHeaderBytes, kUntouched);
  }
};

INSTANTIATE_TEST_SUITE_P(Verbs, VerbsRequests, testing::Values(over_the_network()), backend_name);

TEST_P(VerbsRequests, NeighboursTravelInOneRequest) {
  constexpr uint64_t kPages = 64;
  constexpr uint64_t kPlace = kPageBytes + 3 * kHeaderBytes + 1;
  Link link = make_link(ChannelPurpose::kRead, kPages * (kPlace + 1) + 1);
  fill(link.remote_region.data(), link.remote_region.bytes());
  const uint64_t at = 77;
  std::vector<Operation> ascending;
  for (uint64_t i = 0; i < kPages; ++i) {
    ascending.push_back(page_read(link, at + i * kPageBytes, i * kPlace, kPageBytes, i));
  }
  const std::vector<Operation> descending(ascending.rbegin(), ascending.rend());
  const uint64_t merged = requests_of([&] {
    ASSERT_EQ(post_all(*link.initiator, ascending), kPages);
    EXPECT_TRUE(all_ok(collect(*link.initiator, kPages)));
  });
  EXPECT_EQ(merged, kPages / verbs::SendQueue::kMostMerged);
  for (uint64_t i = 0; i < kPages; ++i) {
    expect_landed(link, at + i * kPageBytes, i * kPlace, kPageBytes);
  }
  EXPECT_TRUE(untouched(link.memory));

  const uint64_t alone = requests_of([&] {
    ASSERT_EQ(post_all(*link.initiator, descending), kPages);
    EXPECT_TRUE(all_ok(collect(*link.initiator, kPages)));
  });
  EXPECT_EQ(alone, kPages);
}

TEST_P(VerbsRequests, LargePagesTravelInParts) {
  constexpr uint64_t kLargeBytes = kMiB + kHeaderBytes;
  constexpr uint64_t kParts = 5;  // of 256 KiB
  for (const uint64_t odd : {0, 1, 4095}) {
    Link link = make_link(ChannelPurpose::kRead, 2 * kLargeBytes + 16 * kKiB);
    fill(link.remote_region.data(), link.remote_region.bytes());
    const std::array reads = {
        page_read(link, odd, 3 * odd, kLargeBytes, 0),
        page_read(link, odd + 5, 3 * odd + kLargeBytes + kKiB, kLargeBytes, 1)};
    const uint64_t requests = requests_of([&] {
      ASSERT_EQ(post_all(*link.initiator, reads), reads.size());
      const auto ended = collect(*link.initiator, reads.size());
      EXPECT_TRUE(all_ok(ended));
      EXPECT_EQ(tags(ended), tags_up_to(reads.size()));
    });
    EXPECT_EQ(requests, kParts * reads.size());
    expect_landed(link, odd, 3 * odd, kLargeBytes);
    expect_landed(link, odd + 5, 3 * odd + kLargeBytes + kKiB, kLargeBytes);
    EXPECT_TRUE(untouched(link.memory));
  }
}

TEST_P(VerbsRequests, NeighboursOfDifferentRegionsStayApart) {
  constexpr uint64_t kPages = 16;
  constexpr uint64_t kPlace = kPageBytes + 2 * kHeaderBytes;
  Link link = make_link(ChannelPurpose::kRead, kPages * kPlace);
  fill(link.remote_region.data(), link.remote_region.bytes());
  Region other = harness_->passive().allocate_readable(link.remote_region.bytes()).value();
  fill(other.data(), other.bytes(), 1);
  const RemoteRegion imported =
      import_whole(*link.initiator, *harness_->passive().export_region(other)).value();
  std::vector<Operation> reads;
  for (uint64_t i = 0; i < kPages; ++i) {
    reads.push_back(page_read(link, i * kPageBytes, i * kPlace, kPageBytes, i));
    if (i % 2 == 1) reads.back().remote = imported;
  }
  ASSERT_EQ(post_all(*link.initiator, reads), kPages);
  EXPECT_TRUE(all_ok(collect(*link.initiator, kPages)));
  for (uint64_t i = 0; i < kPages; ++i) {
    expect_landed(link, i * kPageBytes, i * kPlace, kPageBytes, i % 2);
  }
}

// The peer has claimed a region that is larger than it is.
TEST_P(VerbsRequests, OneThatIsRefusedSpoilsItsNeighboursAndNothingElse) {
  constexpr uint64_t kPages = 8;
  Link link = make_link(ChannelPurpose::kRead, 2 * kPages * kPageBytes);
  Region small = harness_->passive().allocate_readable((kPages - 1) * kPageBytes).value();
  fill(small.data(), small.bytes());
  RegionExport claimed = harness_->passive().export_region(small).value();
  claimed.bytes += kPageBytes;
  const RemoteRegion imported = import_whole(*link.initiator, std::move(claimed)).value();
  std::vector<Operation> reads;
  for (uint64_t i = 0; i < kPages; ++i) {
    reads.push_back(read_operation(link, i * kPageBytes, i * kPageBytes, kPageBytes, i));
    reads.back().remote = imported;
  }
  ASSERT_EQ(post_all(*link.initiator, reads), kPages);
  const auto ended = collect(*link.initiator, kPages);
  EXPECT_EQ(tags(ended), tags_up_to(kPages));
  for (const Completion& completion : ended) {
    EXPECT_EQ(completion.outcome, Outcome::kFailed);
    EXPECT_EQ(completion.vendor, IBV_WC_REM_ACCESS_ERR);
  }
  EXPECT_EQ(
      std::count(link.memory.begin() + (kPages - 1) * kPageBytes, link.memory.end(), kUntouched),
      static_cast<int64_t>((kPages + 1) * kPageBytes));
}

}  // namespace
}  // namespace farpage::contract
