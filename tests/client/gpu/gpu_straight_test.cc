// Fetches into memory of a GPU of pages that are copied straight from a node's memory.

#include <gmock/gmock.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/client/gpu/gpu_client.h"
#include "tests/support/recorded_metrics.h"

namespace farpage {
namespace {

using cuda::kIllegalAddress;
using cuda::kInvalidValue;
using cuda::kOutOfMemory;

// A part of a file, where it is mapped in this process.
struct MappedFile {
  uint64_t first = 0;  // address
  uint64_t last = 0;   // behind it
  uint64_t offset = 0;
  uint64_t inode = 0;
  bool is_writable = false;
};

std::vector<MappedFile> mapped_files() {
  std::vector<MappedFile> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    MappedFile file;
    char dash = 0;
    std::string rights;
    std::string device;
    words >> std::hex >> file.first >> dash >> file.last >> rights >> file.offset >> device >>
        std::dec >> file.inode;
    file.is_writable = rights.starts_with("rw");
    if (file.inode != 0) files.push_back(file);
  }
  return files;
}

class GpuStraight : public GpuClient {
 protected:
  static constexpr size_t kPages = 4;

  GpuStraight() {
    straight_bytes_ = 0;
    open_again();
  }
  ~GpuStraight() override { sources_.reset(); }

  // Of a node whose pages may be read for so long, under a lease of so long.
  void open_again(uint64_t reuse_ms = 60'000, uint64_t lease_ms = 600'000) {
    region_ = {};
    sources_.reset();
    tier_.reset();
    NodeOptions node = Cluster::small_options();
    node.reuse_ms = reuse_ms;
    node.lease_ms = lease_ms;
    cluster_.emplace(Path::kShm, node);
    tier_ = open(options());
    sources_.emplace(*tier_, kPages, uint8_t{1});
    put_all(*tier_, *sources_);
  }
  void start_anew(const cuda::FakeSettings& settings) {
    sources_.reset();
    tier_.reset();
    forget_allocations();
    start(settings);
    open_again();
  }
  // From now on each page may come straight.
  void begin() {
    region_ = registered(kPages);
    until([this] { return are_ready(fetch()) && straight() > 0; });
  }

  Ticket fetch(uint64_t timeout_us = kTimeoutUs) const {
    return tier_->fetch(fetches_to(region_), timeout_us).value();
  }
  // Its copies are on streams that do not go on. On a busy machine the deadline may come first.
  Ticket held_fetch(uint64_t timeout_us = kTimeoutUs) const {
    fake_->hold(nullptr);
    const auto are_under_way = [this] { return fake_->live().operations > 0; };
    while (true) {
      Ticket ticket = fetch(timeout_us);
      until([&] { return are_under_way() || ticket.done(); });
      if (are_under_way()) return ticket;
    }
  }
  uint64_t straight() const {
    RecordedMetrics metrics;
    tier_->client().describe(metrics);
    return static_cast<uint64_t>(metrics.values.at("farpage_client_straight_pages_total"));
  }
  bool is_whole() const {
    for (size_t i = 0; i < kPages; ++i) {
      if (!has_page(region_, i, *sources_, i)) return false;
    }
    return true;
  }
  // The byte that is mapped there for reading, where the node, in this process too, has mapped it
  // for writing.
  static std::byte* writable(const std::byte* mapped) {
    const auto at = reinterpret_cast<uint64_t>(mapped);
    const std::vector<MappedFile> all = mapped_files();
    for (const MappedFile& reads : all) {
      if (at < reads.first || at >= reads.last) continue;
      const uint64_t in_file = reads.offset + at - reads.first;
      for (const MappedFile& writes : all) {
        const bool has_it = writes.inode == reads.inode && in_file >= writes.offset &&
                            in_file - writes.offset < writes.last - writes.first;
        if (!has_it || !writes.is_writable) continue;
        return reinterpret_cast<std::byte*>(writes.first + in_file - writes.offset);
      }
    }
    throw std::runtime_error("no part of the process writes there");
  }
  void expect_through_pinned_memory() {
    region_ = registered(kPages);
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(are_ready(fetch()));
      EXPECT_TRUE(is_whole());
    }
    EXPECT_EQ(straight(), 0u);
  }

  std::optional<Pages> sources_;
  Region region_;
};

TEST_F(GpuStraight, PagesLieAtTheirDestinationAndAreCounted) {
  begin();
  const uint64_t before = straight();
  const Ticket ticket = fetch();
  ASSERT_TRUE(are_ready(ticket));
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(straight(), before + kPages);
  for (size_t i = 0; i < kPages; ++i) {
    EXPECT_EQ(reinterpret_cast<uint64_t>(ticket.verdicts()[i].landed), address_of(region_, i));
  }
}

TEST_F(GpuStraight, PageThatIsShorterThanTheSettingComesThroughPinnedMemory) {
  for (const uint64_t least_bytes : {kPageBytes, kPageBytes + 1}) {
    straight_bytes_ = least_bytes;
    open_again();
    region_ = registered(kPages);
    const bool is_straight = least_bytes == kPageBytes;
    if (is_straight) until([this] { return are_ready(fetch()) && straight() > 0; });
    EXPECT_TRUE(are_ready(fetch()));
    EXPECT_EQ(straight() > 0, is_straight);
    EXPECT_EQ(fake_->live().host_ranges, kOwnRanges + (is_straight ? 1 : 0))
        << "pools are not pinned in vain";
  }
}

// The first look at its header has shown it.
TEST_F(GpuStraight, PageThatIsRemovedWhileItIsCopiedIsNotReady) {
  begin();
  const Ticket ticket = held_fetch();
  const PageKey removed = key(0);
  const Ticket remove = tier_->remove({&removed, 1}, kTimeoutUs).value();
  remove.wait();
  fake_->release(nullptr);
  ticket.wait();
  EXPECT_EQ(ticket.verdicts()[0].reason, Reason::kMiss);
  for (size_t i = 1; i < kPages; ++i) EXPECT_TRUE(is_ready(ticket, i));
}

TEST_F(GpuStraight, PageThatIsPutAgainWhileItIsCopiedIsTheNewerOne) {
  begin();
  const Ticket ticket = held_fetch();
  const Pages newer(*tier_, 1, 77);
  put_all(*tier_, newer);
  fake_->release(nullptr);
  EXPECT_TRUE(are_ready(ticket));
  EXPECT_TRUE(has_page(region_, 0, newer, 0));
  EXPECT_TRUE(has_page(region_, 1, *sources_, 1));
}

// By the client's thread, before the copy.
TEST_F(GpuStraight, PageThatIsSpoiledInTheNodesMemoryIsCorruptAndIsNotCopied) {
  begin();
  const Lane lane = tier_->client().open_lane().value();
  *writable(lane.mapped_payload(key(1))) ^= std::byte{1};
  region_ = registered(kPages);
  const uint64_t before = straight();
  const Ticket ticket = fetch();
  ticket.wait();
  EXPECT_EQ(ticket.verdicts()[1].reason, Reason::kCorrupt);
  EXPECT_TRUE(is_filled_with(address_of(region_, 1), kUntouched));
  for (const size_t i : {0, 2, 3}) EXPECT_TRUE(is_ready(ticket, i));
  EXPECT_EQ(straight(), before + kPages - 1);
}

// Though its header still stands there: the node may have been writing to it at any time.
TEST_F(GpuStraight, PageWhoseCopyTakesTheReadWindowIsReadAgain) {
  open_again(100);
  begin();
  const Ticket ticket = held_fetch();
  const uint64_t before = straight();
  const uint64_t end_ns = tier_->clock().now_ns() + 100 * kMillisecond;
  until([&] { return tier_->clock().now_ns() > end_ns; });
  fake_->release(nullptr);
  EXPECT_TRUE(are_ready(ticket));
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(straight(), before);
  for (const PageVerdict& page : ticket.verdicts()) EXPECT_GT(page.attempts, 1);
}

TEST_F(GpuStraight, PageWhoseCopyIsUnderWayAtTheDeadlineIsHeldUntilThatHasEnded) {
  begin();
  const Ticket ticket = held_fetch(100'000);
  EXPECT_TRUE(are(ticket, Verdict::kRecompute, Reason::kStalled));
  EXPECT_FALSE(ticket.released());
  for (const PageVerdict& page : ticket.verdicts()) EXPECT_EQ(page.place, Place::kHeld);
  const uint64_t later_ns = tier_->clock().now_ns() + 20 * kMillisecond;
  EXPECT_FALSE(ticket.wait_released(later_ns));
  EXPECT_GT(fake_->live().operations, 0);
  fake_->release(nullptr);
  EXPECT_TRUE(ticket.wait_released(patience_ns()));
  EXPECT_EQ(fake_->live().operations, 0);
  for (const PageVerdict& page : ticket.verdicts()) {
    EXPECT_EQ(page.place, Place::kReleased);
    EXPECT_EQ(page.verdict, Verdict::kRecompute);
  }
}

// The fake notes a registration that ends under a copy, and faults where memory is not mapped.
TEST_F(GpuStraight, PoolStaysMappedAndRegisteredUntilCopiesFromItHaveEnded) {
  open_again(400, 500);
  begin();
  const Ticket ticket = held_fetch(100'000);
  ticket.wait();
  cluster_->restart();
  const auto count = [this] { return fake_->live().host_ranges; };
  until([&] { return count() == kOwnRanges + 2; });  // the new run's, too
  EXPECT_FALSE(ticket.released());
  fake_->release(nullptr);
  EXPECT_TRUE(ticket.wait_released(patience_ns()));
  until([&] { return count() == kOwnRanges + 1; });
  EXPECT_TRUE(is_whole());
}

TEST_F(GpuStraight, PagesThatANodeTookWithItAreNotReady) {
  open_again(400, 500);
  begin();
  const Ticket ticket = held_fetch();
  cluster_->restart();
  until([this] { return fake_->live().host_ranges == kOwnRanges + 2; });  // the new run's pool, too
  fake_->release(nullptr);
  ticket.wait();
  for (const PageVerdict& page : ticket.verdicts()) EXPECT_EQ(page.verdict, Verdict::kRecompute);
}

// It has a block of the bounce memory, and the other fetches take another. On a busy machine the
// new lease may end between.
TEST_F(GpuStraight, CopyThatDoesNotEndKeepsNoOtherFetchFromANodesNewRun) {
  bounce_bytes_ = 512 * kKiB;
  open_again(400, 500);
  begin();
  const Ticket ticket = held_fetch();
  cluster_->restart();
  until([this] { return fake_->live().host_ranges == kOwnRanges + 2; });
  until([this] { return are(fetch(), Verdict::kRecompute, Reason::kMiss); });
  EXPECT_FALSE(ticket.done());
  fake_->release(nullptr);
}

TEST_F(GpuStraight, ClientThatGoesWaitsForItsCopies) {
  begin();
  std::optional<Ticket> ticket(held_fetch(50'000));
  ticket->wait();
  std::atomic<bool> is_going = false;
  std::thread releasing([&] {
    until([&] { return is_going.load(); });
    fake_->release(nullptr);
  });
  sources_.reset();
  is_going = true;
  ticket.reset();
  tier_.reset();
  releasing.join();
  EXPECT_EQ(fake_->live().host_ranges, 0);
}

TEST_F(GpuStraight, PagesComeThroughPinnedMemoryWhereTheDeviceReadsNoReadOnlyMemory) {
  start_anew({.read_only_registration = false});
  expect_through_pinned_memory();
}

TEST_F(GpuStraight, PagesComeThroughPinnedMemoryWhereNoMoreIsRegistered) {
  start_anew({.most_host_ranges = kOwnRanges});
  expect_through_pinned_memory();
}

// Of a call of the registration; those of the memory and kernels of our own have come before.
TEST_F(GpuStraight, PagesComeThroughPinnedMemoryAfterAFaultOfTheRegistration) {
  for (const auto& [call, nth] :
       {std::pair("cuMemHostRegister_v2", kOwnRanges + 1), std::pair("cuDeviceGetAttribute", 3)}) {
    open_again();
    fake_->fail_call(call, nth, kOutOfMemory);
    expect_through_pinned_memory();
  }
}

TEST_F(GpuStraight, PagesOfACopyThatIsRefusedComeThroughPinnedMemory) {
  begin();
  for (const char* call : {"cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuEventQuery"}) {
    fake_->fail_call(call, 1, kInvalidValue);
    EXPECT_TRUE(are_ready(fetch())) << call;
    EXPECT_TRUE(is_whole()) << call;
  }
}

TEST_F(GpuStraight, ContextThatEndsUnderACopyMakesItsPagesUnreachable) {
  begin();
  const Ticket ticket = held_fetch();
  fake_->break_context(context_, kIllegalAddress);
  EXPECT_TRUE(are(ticket, Verdict::kRecompute, Reason::kUnreachable));
  EXPECT_TRUE(ticket.wait_released(patience_ns()));
  EXPECT_TRUE(are(fetch(), Verdict::kRecompute, Reason::kUnreachable));
  const Pages landed(*tier_, kPages, 100);
  EXPECT_TRUE(are_ready(tier_->fetch(fetches(landed), kTimeoutUs).value()));
  leave_everything();
  forget_allocations();
}

}  // namespace
}  // namespace farpage
