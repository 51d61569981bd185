// Reads over several paths, and what becomes of them when a path breaks or the peer falls silent.
#include <algorithm>
#include <array>

#include "tests/support/posting.h"
#include "tests/transport/verbs/raw_peer.h"
#include "tests/transport/verbs/softroce.h"
#include "tests/transport/verbs/verbs_backends.h"
#include "transport/verbs/initiator.h"

namespace farpage::contract {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kReads = 512;
constexpr uint64_t kEndsWithinNs = 2 * kSecond;

class VerbsPaths : public ContractTest {
 protected:
  // Pages that are no neighbours.
  static std::vector<Operation> reads_of(const Link& link, uint64_t count) {
    std::vector<Operation> reads;
    for (uint64_t i = 0; i < count; ++i) {
      reads.push_back(
          read_operation(link, (count - 1 - i) * kPageBytes, i * kPageBytes, kPageBytes, i));
    }
    return reads;
  }
  static void expect_landed(const Link& link, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(
          first_difference(&link.memory[i * kPageBytes], kPageBytes, (count - 1 - i) * kPageBytes),
          kPageBytes)
          << i;
    }
  }
  // The active side's report of the path to this peer.
  PathUse use_of(const std::string& path) {
    for (const PathUse& use : dynamic_cast<PathSource&>(harness_->active()).paths()) {
      if (use.path == path) return use;
    }
    ADD_FAILURE() << "no path " << path;
    return {};
  }
  Link filled_link() {
    Link link = make_link(ChannelPurpose::kRead, kReads * kPageBytes);
    fill(link.remote_region.data(), link.remote_region.bytes());
    return link;
  }

  // Reads until those of `path`'s device carry some of it again.
  bool is_used_again(const Link& link, const std::string& device) {
    constexpr uint64_t kSome = 64;
    const auto reads = reads_of(link, kSome);
    const uint64_t deadline_ns = soon();
    while (harness_->clock().now_ns() < deadline_ns) {
      const uint64_t before = device_counter(device, "sent_pkts");
      if (post_all(*link.initiator, reads) != kSome) return false;
      if (!all_ok(collect(*link.initiator, kSome))) return false;
      if (device_counter(device, "sent_pkts") - before >= kSome / 4) return true;
      link.initiator->wait(harness_->clock().now_ns() + 10 * kMillisecond);
    }
    return false;
  }
};

class VerbsTwoPaths : public VerbsPaths {};
INSTANTIATE_TEST_SUITE_P(Verbs, VerbsTwoPaths, testing::Values(two_devices(), two_ways()),
                         backend_name);

TEST_P(VerbsTwoPaths, ReadsGoOverBoth) {
  Link link = filled_link();
  const std::array before = {device_counter("rxe0", "sent_pkts"),
                             device_counter("rxe1", "sent_pkts")};
  ASSERT_EQ(post_all(*link.initiator, reads_of(link, kReads)), kReads);
  EXPECT_TRUE(all_ok(collect(*link.initiator, kReads)));
  expect_landed(link, kReads);
  EXPECT_GT(device_counter("rxe0", "sent_pkts") - before[0], kReads / 4);
  EXPECT_GT(device_counter("rxe1", "sent_pkts") - before[1], kReads / 4);
  const auto uses = dynamic_cast<PathSource&>(harness_->active()).paths();
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].reads + uses[1].reads, kReads);
  EXPECT_EQ(uses[0].read_bytes + uses[1].read_bytes, kReads * kPageBytes);
  for (const PathUse& use : uses) {
    EXPECT_GT(use.reads, kReads / 4) << use.path;
    EXPECT_EQ(use.read_bytes, use.reads * kPageBytes) << use.path;
    EXPECT_EQ(use.connections, 1u) << use.path;
    EXPECT_EQ(use.connected, 1u) << use.path;
    EXPECT_EQ(use.writes + use.broken + use.failed, 0u) << use.path;
  }
  link.initiator.reset();
  const uint64_t deadline_ns = soon();
  while (use_of(uses[0].path).connections > 0 && harness_->clock().now_ns() < deadline_ns) {
  }
  const PathUse ended = use_of(uses[0].path);
  EXPECT_EQ(ended.connections, 0u);
  EXPECT_EQ(ended.reads, uses[0].reads) << "what was counted stays";
}

// The peer has claimed a region that is larger than it is.
TEST_P(VerbsTwoPaths, ARefusedReadCostsNoOther) {
  Link link = filled_link();
  RegionExport claimed = harness_->passive().export_region(link.remote_region).value();
  claimed.bytes += kPageBytes;
  const RemoteRegion imported = import_whole(*link.initiator, std::move(claimed)).value();
  constexpr uint64_t kBad = kReads / 2;
  auto reads = reads_of(link, kReads);
  reads[kBad].remote = imported;
  reads[kBad].remote_offset = kReads * kPageBytes;
  ASSERT_EQ(post_all(*link.initiator, reads), kReads);
  auto ended = collect(*link.initiator, kReads);
  EXPECT_EQ(tags(ended), tags_up_to(kReads));
  for (const Completion& completion : ended) {
    EXPECT_EQ(completion.outcome, completion.tag == kBad ? Outcome::kFailed : Outcome::kOk);
  }
  std::copy_n(link.remote_region.data() + (kReads - 1 - kBad) * kPageBytes, kPageBytes,
              &link.memory[kBad * kPageBytes]);
  expect_landed(link, kReads);
  for (const char* device : {"rxe0", "rxe1"}) EXPECT_TRUE(is_used_again(link, device)) << device;
}

// Neighbours are one READ of the device, which one bad one among them makes fail.
TEST_P(VerbsTwoPaths, ARefusedReadCostsNoOtherThatIsAskedForAlone) {
  Link link = filled_link();
  RegionExport claimed = harness_->passive().export_region(link.remote_region).value();
  claimed.bytes += kPageBytes;
  const RemoteRegion imported = import_whole(*link.initiator, std::move(claimed)).value();
  constexpr uint64_t kNeighbours = 8;
  constexpr uint64_t kBad = kNeighbours - 1;
  constexpr uint64_t kFirst = kReads - kBad;  // the last is beyond the end
  std::vector<Operation> reads;
  for (uint64_t i = 0; i < kNeighbours; ++i) {
    reads.push_back(read_operation(link, 0, i * kPageBytes, kPageBytes, i));
    reads.back().remote = imported;
    reads.back().remote_offset = (kFirst + i) * kPageBytes;
  }
  ASSERT_EQ(post_all(*link.initiator, reads), kNeighbours);
  const auto merged = collect(*link.initiator, kNeighbours);
  EXPECT_EQ(tags(merged), tags_up_to(kNeighbours));
  EXPECT_GT(std::ranges::count(merged, Outcome::kFailed, &Completion::outcome), 1);
  for (const char* device : {"rxe0", "rxe1"}) EXPECT_TRUE(is_used_again(link, device)) << device;

  for (Operation& read : reads) read.alone = true;
  ASSERT_EQ(post_all(*link.initiator, reads), kNeighbours);
  const auto alone = collect(*link.initiator, kNeighbours);
  EXPECT_EQ(tags(alone), tags_up_to(kNeighbours));
  for (const Completion& completion : alone) {
    EXPECT_EQ(completion.outcome, completion.tag == kBad ? Outcome::kFailed : Outcome::kOk);
  }
  for (uint64_t i = 0; i < kBad; ++i) {
    EXPECT_EQ(first_difference(&link.memory[i * kPageBytes], kPageBytes, (kFirst + i) * kPageBytes),
              kPageBytes)
        << i;
  }
}

class VerbsTwoWays : public VerbsPaths {};
INSTANTIATE_TEST_SUITE_P(Verbs, VerbsTwoWays, testing::Values(two_ways()), backend_name);

TEST_P(VerbsTwoWays, ASilentPathCostsNoReadAndIsUsedAgain) {
  Link link = filled_link();
  {
    const NetworkFault silence("loss 100%");
    ASSERT_EQ(post_all(*link.initiator, reads_of(link, kReads)), kReads);
    const uint64_t begin_ns = harness_->clock().now_ns();
    const auto ended = collect(*link.initiator, kReads);
    EXPECT_LT(harness_->clock().now_ns() - begin_ns, kEndsWithinNs);
    EXPECT_TRUE(all_ok(ended));
    EXPECT_EQ(tags(ended), tags_up_to(kReads));
    EXPECT_GT(silence.dropped(), 0u);
    expect_landed(link, kReads);
    EXPECT_EQ(use_of("rxe0 -> 10.9.0.2").broken, 1u);
  }
  EXPECT_TRUE(is_used_again(link, "rxe0"));
  EXPECT_EQ(use_of("rxe0 -> 10.9.0.2").connected, 2u);
  EXPECT_EQ(use_of("rxe1 -> 10.8.0.1").connected, 1u);
  EXPECT_EQ(use_of("rxe1 -> 10.8.0.1").broken, 0u);
}

// A connection whose end at the node is gone: the same owner has come once more, on the first path.
TEST_P(VerbsTwoWays, APathThatTheNodeDestroysCostsNoReadAndIsUsedAgain) {
  auto offered = harness_->passive().offer_channel(ChannelPurpose::kRead).value();
  const auto offer = verbs::decode_offer(offered.offer.opaque).value();
  const auto devices = verbs::Devices::open({"rxe0", "rxe1"}).value();
  const verbs::ConnectWire introduction = {verbs::kMagic, 0, offer.channel, 7};
  verbs::InitiatorEnd end;
  end.readiness = DescriptorSet::make().value();
  end.dialer = std::make_shared<verbs::Dialer>(devices);
  end.keys = std::make_shared<verbs::LocalKeys>(devices);
  end.arrivals = std::make_shared<verbs::Arrivals>();
  end.endpoints = offer.endpoints;
  end.introduction = introduction;
  const auto keys = end.keys;
  for (uint32_t path = 0; path < offer.endpoints.size(); ++path) {
    verbs::ConnectWire own = introduction;
    own.path = path;
    end.dialled[path] = true;
    end.dialer->dial(end.arrivals, offer.endpoints[path], own, soon());
  }
  ASSERT_TRUE(end.arrivals->wait_for_first(offer.endpoints.size(), 10 * kSecond, soon()));

  Link link;
  link.target = std::move(offered.target);
  link.initiator = std::make_unique<verbs::VerbsInitiator>(std::move(end));
  link.remote_region = harness_->passive().allocate_readable(kReads * kPageBytes).value();
  fill(link.remote_region.data(), link.remote_region.bytes());
  link.remote =
      import_whole(*link.initiator, *harness_->passive().export_region(link.remote_region)).value();
  link.memory.assign(kReads * kPageBytes, kUntouched);
  link.local =
      verbs::LocalKeys::add(keys, {.data = link.memory.data(), .bytes = link.memory.size()})
          .value();

  std::vector<Completion> ended;
  {
    const NetworkFault slow("delay 20ms");
    ASSERT_EQ(post_all(*link.initiator, reads_of(link, kReads)), kReads);
    ended =
        collect(*link.initiator, kReads / 2 + 16);  // those of the other path, and some of this one
    EXPECT_TRUE(verbs::RawPeer("rxe0").connect(offer.endpoints[0], introduction));
    const auto rest = collect(*link.initiator, kReads - ended.size());
    ended.insert(ended.end(), rest.begin(), rest.end());
  }
  EXPECT_TRUE(all_ok(ended));
  EXPECT_EQ(tags(ended), tags_up_to(kReads));
  expect_landed(link, kReads);
  EXPECT_TRUE(is_used_again(link, "rxe0"));
}

class VerbsOnePath : public VerbsPaths {
 protected:
  // All of them have ended once, and not all well; nothing more can be done with the channel.
  void expect_broken(const Link& link, const std::vector<Completion>& ended, uint64_t count) {
    EXPECT_EQ(tags(ended), tags_up_to(count));
    EXPECT_FALSE(all_ok(ended));
    const Operation read = read_operation(link, 0, 0, 64);
    EXPECT_EQ(post_operations(*link.initiator, {&read, 1}).status.code, Code::kUnavailable);
    const auto refused = collect(*link.initiator, 1);
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_EQ(refused[0].outcome, Outcome::kAborted);
  }
};
INSTANTIATE_TEST_SUITE_P(Verbs, VerbsOnePath, testing::Values(over_the_network()), backend_name);

TEST_P(VerbsOnePath, WhenTheNodeGoesEverythingEnds) {
  Link link = filled_link();
  const NetworkFault slow("delay 20ms");
  ASSERT_EQ(post_all(*link.initiator, reads_of(link, kReads)), kReads);
  auto ended = collect(*link.initiator, 16);
  EXPECT_TRUE(all_ok(ended));
  link.target->close();
  const uint64_t begin_ns = harness_->clock().now_ns();
  const auto rest = collect(*link.initiator, kReads - ended.size());
  EXPECT_LT(harness_->clock().now_ns() - begin_ns, kEndsWithinNs);
  ended.insert(ended.end(), rest.begin(), rest.end());
  expect_broken(link, ended, kReads);
}

// I3: without anybody's close.
TEST_P(VerbsOnePath, ASilentPeerEndsEverything) {
  Link link = filled_link();
  {
    const NetworkFault silence("loss 100%");
    const uint64_t begin_ns = harness_->clock().now_ns();
    ASSERT_EQ(post_all(*link.initiator, reads_of(link, kReads)), kReads);
    const auto ended = collect(*link.initiator, kReads);
    EXPECT_LT(harness_->clock().now_ns() - begin_ns, kEndsWithinNs);
    ASSERT_EQ(ended.size(), kReads);
    EXPECT_EQ(ended[0].vendor, IBV_WC_RETRY_EXC_ERR);
    for (const Completion& completion : ended) EXPECT_NE(completion.outcome, Outcome::kOk);
    EXPECT_GT(silence.dropped(), 0u);
    expect_broken(link, ended, kReads);
  }
  harness_->settle();
  EXPECT_TRUE(untouched(link.memory));
}

// I4: at any time of the transport's own retries.
TEST_P(VerbsOnePath, CloseEndsWhatASilentPeerDoesNot) {
  for (const uint64_t after_ms : {0, 30, 100, 300}) {
    Link link = filled_link();
    {
      const NetworkFault silence("loss 100%");
      ASSERT_EQ(post_all(*link.initiator, reads_of(link, kReads)), kReads);
      const uint64_t until_ns = harness_->clock().now_ns() + after_ms * kMillisecond;
      while (harness_->clock().now_ns() < until_ns) link.initiator->wait(until_ns);
      const uint64_t begin_ns = harness_->clock().now_ns();
      link.initiator->close();
      EXPECT_LT(harness_->clock().now_ns() - begin_ns, 200 * kMillisecond) << after_ms;
      const auto ended = collect(*link.initiator, kReads);
      EXPECT_EQ(tags(ended), tags_up_to(kReads));
      for (const Completion& completion : ended) {
        EXPECT_EQ(completion.outcome, Outcome::kAborted);
      }
    }
    harness_->settle();
    EXPECT_TRUE(untouched(link.memory));
  }
}

// I4: what the peer has sent already finds nobody.
TEST_P(VerbsOnePath, RepliesThatAreUnderWayAtCloseLandNowhere) {
  constexpr uint64_t kFew = 16;
  // A busy machine may be too late to close.
  bool in_time = false;
  for (int attempt = 0; attempt < 10 && !in_time; ++attempt) {
    Link link = filled_link();
    {
      const NetworkFault slow("delay 150ms");
      const uint64_t sent = device_counter("rxe2", "sent_pkts");
      const uint64_t landed = device_counter("rxe0", "rcvd_pkts");
      ASSERT_EQ(post_all(*link.initiator, reads_of(link, kFew)), kFew);
      const uint64_t deadline_ns = soon();
      while (device_counter("rxe2", "sent_pkts") - sent < kFew &&
             harness_->clock().now_ns() < deadline_ns) {
      }
      link.initiator->close();
      in_time = device_counter("rxe2", "sent_pkts") - sent >= kFew &&
                device_counter("rxe0", "rcvd_pkts") == landed;
      const auto ended = collect(*link.initiator, kFew);
      EXPECT_EQ(tags(ended), tags_up_to(kFew));
      if (!in_time) continue;
      for (const Completion& completion : ended) EXPECT_EQ(completion.outcome, Outcome::kAborted);
      while (slow.queued() > 0 && harness_->clock().now_ns() < deadline_ns) {
      }
      EXPECT_EQ(slow.queued(), 0u);
    }
    harness_->settle();
    EXPECT_TRUE(untouched(link.memory));
  }
  EXPECT_TRUE(in_time);
}

}  // namespace
}  // namespace farpage::contract
