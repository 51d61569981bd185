// Pages of nodes that keep headers and payloads apart: two reads for each.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "integrity/crc32c.h"
#include "sim/fault/fault_fabric.h"
#include "sim/sim_cluster.h"
#include "tests/support/cluster.h"
#include "tests/support/engine.h"
#include "tier/fetch/operation_tag.h"
#include "transport/forwarding_fabric.h"
#include "transport/forwarding_initiator.h"

namespace farpage {
namespace {

class SlotsApart : public ::testing::TestWithParam<Path> {
 protected:
  static constexpr uint64_t kPageBytes = 4 * kKiB;

  static NodeOptions apart() {
    NodeOptions options = Cluster::small_options();
    options.pool_bytes = 64 * (kPageBytes + sizeof(PageHeader));
    options.slot_layout = SlotLayout::kApart;
    return options;
  }

  Cluster cluster_{GetParam(), apart()};
  std::unique_ptr<Client> client_ = cluster_.connect();
  Engine engine_{*client_, kPageBytes, 64};
};

TEST_P(SlotsApart, WhatWasPutComesBackWholeByTwoReadsInOneRoundTrip) {
  const PutResult put = engine_.put(test_key(1), 7);
  ASSERT_EQ(put.code, Code::kOk);
  ASSERT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  const LaneStats cold = engine_.lane().stats();
  const PageVerdict verdict = engine_.fetch(test_key(1));
  EXPECT_EQ(verdict.verdict, Verdict::kReady);
  EXPECT_EQ(verdict.version, put.version);
  EXPECT_EQ(engine_.put_number_of(test_key(1)), 7);
  const LaneStats warm = engine_.lane().stats();
  EXPECT_EQ(warm.posts - cold.posts, 1u);
  EXPECT_EQ(warm.operations - cold.operations, 2u);
}

TEST_P(SlotsApart, WhetherAPageIsThereIsAskedOfItsHeaderAlone) {
  ASSERT_EQ(engine_.put(test_key(1), 7).code, Code::kOk);
  ASSERT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  const LaneStats before = engine_.lane().stats();
  EXPECT_TRUE(engine_.lane().contains(test_key(1), engine_.deadline()));
  EXPECT_EQ(engine_.lane().stats().operations - before.operations, 1u);
  EXPECT_FALSE(engine_.lane().contains(test_key(2), engine_.deadline()));
}

TEST_P(SlotsApart, NewerVersionsReplaceOlderOnesAndRemovedPagesAreMisses) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  ASSERT_EQ(engine_.fetch(test_key(1)).verdict, Verdict::kReady);
  const PutResult second = engine_.put(test_key(1), 2);
  EXPECT_EQ(engine_.fetch(test_key(1)).version, second.version);
  EXPECT_EQ(engine_.put_number_of(test_key(1)), 2);
  EXPECT_EQ(engine_.fetch(test_key(1), second.version + 1, 100 * kMillisecond).reason,
            Reason::kStale);
  const PageKey key = test_key(1);
  EXPECT_EQ(client_->remove({&key, 1}, engine_.deadline()).wait().value(), 1u);
  EXPECT_EQ(engine_.fetch(key).reason, Reason::kMiss);
}

// Four times as many pages as slots: what a location names has long been another page's.
TEST_P(SlotsApart, SlotsThatAreUsedAgainShowNoOtherPage) {
  for (uint64_t number = 0; number < 256; ++number) {
    ASSERT_EQ(engine_.put(test_key(number), number + 1, 10 * kSecond).code, Code::kOk);
    ASSERT_EQ(engine_.fetch(test_key(number)).verdict, Verdict::kReady);
    ASSERT_EQ(engine_.put_number_of(test_key(number)), number + 1);
  }
  size_t ready = 0;
  for (uint64_t number = 0; number < 256; ++number) {
    const PageVerdict verdict = engine_.fetch(test_key(number));
    if (verdict.verdict == Verdict::kReady) {
      ++ready;
      EXPECT_EQ(engine_.put_number_of(test_key(number)), number + 1);
    } else {
      EXPECT_EQ(verdict.reason, Reason::kMiss);
    }
  }
  EXPECT_GT(ready, 16u);
  EXPECT_LE(ready, 64u);
}

TEST_P(SlotsApart, PayloadIsMappedWhereItLies) {
  ASSERT_EQ(engine_.put(test_key(1), 1).code, Code::kOk);
  ASSERT_EQ(engine_.put(test_key(2), 2).code, Code::kOk);
  ASSERT_EQ(engine_.fetch(test_key(2)).verdict, Verdict::kReady);
  const std::byte* mapped = engine_.lane().mapped_payload(test_key(2));
  ASSERT_EQ(mapped != nullptr, GetParam() == Path::kShm);
  if (mapped == nullptr) return;
  EXPECT_TRUE(std::equal(mapped, mapped + kPageBytes, engine_.frame(0).data()));
}

INSTANTIATE_TEST_SUITE_P(Paths, SlotsApart, testing::Values(Path::kShm, Path::kTcp), path_name);

constexpr uint8_t kHeader = 1;  // a warm page's operations, by the part that their tags name
constexpr uint8_t kPayload = 4;

// A fabric that counts CRCs as it lands, and of whose reads one part or the other ends last, or
// not at all, or badly.
class PartsFabric final : public ForwardingFabric {
 public:
  explicit PartsFabric(Fabric& fabric)
      : ForwardingFabric(fabric), capabilities_(fabric.capabilities()) {
    capabilities_.checksums_landing = true;
  }

  uint8_t last = 0;         // of the parts: told after the other one
  uint8_t held = 0;         // this one is not told
  uint8_t failing = 0;      // this one ends as failed
  bool is_spoiled = false;  // of each payload, a bit, before it is told

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    const bool reads = offer.purpose == ChannelPurpose::kRead;
    auto initiator = ForwardingFabric::connect(std::move(offer), deadline_ns);
    if (!initiator || !reads) return initiator;
    return std::make_unique<Parts>(std::move(*initiator), *this);
  }

 private:
  class Parts final : public ForwardingInitiator {
   public:
    Parts(std::unique_ptr<Initiator> inner, PartsFabric& rules)
        : ForwardingInitiator(std::move(inner)), rules_(rules) {}

    size_t room() const override { return inner().room() - written_.size() - ended_.size(); }
    Operation& next() override { return written_.emplace_back(); }
    Status post() override {
      for (const Operation& operation : written_) {
        flights_[operation.tag] = operation;
        inner().next() = operation;
      }
      written_.clear();
      return inner().post();
    }
    size_t poll(std::span<Completion> completions) override {
      std::array<Completion, 16> polled;
      const size_t count = inner().poll(polled);
      for (size_t i = 0; i < count; ++i) ended_.push_back(landed(polled[i]));
      size_t given = 0;
      for (auto at = ended_.begin(); at != ended_.end() && given < completions.size();) {
        const uint8_t part = OperationTag::of(at->tag).part;
        if (!closed_ && (part == rules_.held || (part == rules_.last && waits(*at)))) {
          ++at;
          continue;
        }
        completions[given++] = *at;
        flights_.erase(at->tag);
        at = ended_.erase(at);
      }
      return given;
    }
    void close() override {
      closed_ = true;
      inner().close();
    }

   private:
    Completion landed(Completion completion) {
      const Operation& asked = flights_.at(completion.tag);
      const Slice& slice = asked.local[asked.local_count - 1];
      const uint8_t part = OperationTag::of(completion.tag).part;
      if (part == rules_.failing) completion.outcome = Outcome::kFailed;
      if (part == kPayload && rules_.is_spoiled) slice.data[slice.bytes / 2] ^= std::byte{1};
      if (asked.wants_crc) completion.crc = crc32c(0, slice.data, slice.bytes);
      return completion;
    }
    // For the other one of its page.
    bool waits(const Completion& completion) const {
      const OperationTag tag = OperationTag::of(completion.tag);
      return std::ranges::any_of(flights_, [&](const auto& flight) {
        const OperationTag other = OperationTag::of(flight.first);
        return other.step == tag.step && other.part != tag.part;
      });
    }

    PartsFabric& rules_;
    std::vector<Operation> written_;
    std::map<uint64_t, Operation> flights_;
    std::deque<Completion> ended_;
    bool closed_ = false;
  };

  Capabilities capabilities_;
};

class PagesInParts : public ::testing::Test {
 protected:
  static constexpr uint64_t kPageBytes = 512;

  static SimClusterOptions apart() {
    SimClusterOptions options;
    options.nodes_apart = 1;
    return options;
  }
  void SetUp() override {
    put_ = engine_.put(key_, 1);
    ASSERT_EQ(put_.code, Code::kOk);
    ASSERT_EQ(engine_.fetch(key_).verdict, Verdict::kReady);  // from now on it is located
  }
  void TearDown() override { parts_.held = parts_.last = parts_.failing = 0; }

  SimCluster cluster_{1, apart()};
  PartsFabric parts_{cluster_.client_fabric(0)};
  std::unique_ptr<Client> client_ = cluster_.connect(0, {}, &parts_).value();
  Engine engine_{*client_, kPageBytes, 8};
  const PageKey key_ = test_key(1);
  PutResult put_;
};

TEST_F(PagesInParts, CrcIsKeptWhicheverEndsFirst) {
  for (const uint8_t last : {kHeader, kPayload}) {
    parts_.last = last;
    const LaneStats before = engine_.lane().stats();
    const PageVerdict verdict = engine_.fetch(key_);
    EXPECT_EQ(verdict.verdict, Verdict::kReady) << int{last};
    EXPECT_EQ(verdict.looks, 1) << int{last};
    EXPECT_EQ(engine_.put_number_of(key_), 1u);
    EXPECT_EQ(engine_.lane().stats().operations - before.operations, 2u);
  }
}

TEST_F(PagesInParts, SpoiledPayloadIsCorruptWhicheverEndsFirst) {
  parts_.is_spoiled = true;
  for (const uint8_t last : {kHeader, kPayload}) {
    parts_.last = last;
    EXPECT_EQ(engine_.fetch(key_).reason, Reason::kCorrupt) << int{last};
  }
}

// A header says nothing of a payload that is still on its way, nor the other way round.
TEST_F(PagesInParts, NothingIsReadyBeforeBothHaveEnded) {
  for (const uint8_t held : {kHeader, kPayload}) {
    parts_.held = held;
    const PageRequest request = {key_, 0, engine_.slice(0)};
    PageVerdict verdict;
    const uint64_t deadline = engine_.deadline(kMillisecond);
    Fetch fetch = engine_.lane().fetch({&request, 1}, {&verdict, 1}, deadline);
    fetch.wait();
    EXPECT_EQ(verdict.verdict, Verdict::kRecompute) << int{held};
    EXPECT_EQ(verdict.reason, Reason::kStalled);
    EXPECT_EQ(verdict.place, Place::kHeld) << int{held};
    EXPECT_EQ(cluster_.now_ns(), deadline);
    parts_.held = 0;
    EXPECT_TRUE(fetch.wait_released(deadline + kSecond));
    EXPECT_EQ(verdict.place, Place::kReleased);
    EXPECT_EQ(engine_.fetch(key_).verdict, Verdict::kReady);
  }
}

// Within the deadline, but not within `read_window` of the post: bytes that landed then may be of
// another page.
TEST_F(PagesInParts, PartThatIsNotThereWithinTheReuseTimeIsAskedForAnew) {
  const uint64_t reuse_ns = small_sim_node().reuse_ms * kMillisecond;
  for (const uint8_t held : {kHeader, kPayload}) {
    parts_.held = held;
    const uint64_t ended = engine_.lane().stats().channels_ended;
    const PageRequest request = {key_, 0, engine_.slice(0)};
    PageVerdict verdict;
    Fetch fetch = engine_.lane().fetch({&request, 1}, {&verdict, 1}, engine_.deadline(kSecond));
    const uint64_t until = cluster_.now_ns() + reuse_ns + 2 * kMicrosecond;
    while (cluster_.now_ns() < until) {
      (void)engine_.lane().progress();
      cluster_.world().run_until(cluster_.now_ns() + kMicrosecond);
    }
    parts_.held = 0;
    fetch.wait();
    EXPECT_EQ(verdict.verdict, Verdict::kReady) << int{held};
    EXPECT_EQ(engine_.put_number_of(key_), 1u);
    EXPECT_GT(engine_.lane().stats().channels_ended, ended) << int{held};
  }
}

TEST_F(PagesInParts, EitherThatFailsIsNoPage) {
  for (const uint8_t failing : {kHeader, kPayload}) {
    for (const uint8_t last : {kHeader, kPayload}) {
      parts_.last = last;
      parts_.failing = failing;
      const PageVerdict verdict = engine_.fetch(key_, 0, 20 * kMillisecond);
      EXPECT_EQ(verdict.verdict, Verdict::kRecompute);
      EXPECT_LE(verdict.took_ns, 20 * kMillisecond);
      parts_.failing = parts_.last = 0;
      cluster_.world().run_until(cluster_.now_ns() + 100 * kMillisecond);
      EXPECT_EQ(engine_.fetch(key_).verdict, Verdict::kReady) << int{failing} << int{last};
      EXPECT_EQ(engine_.put_number_of(key_), 1u);
    }
  }
}

// Every kind of fault, at every operation and at some.
TEST(SlotsApartFaults, BringNoWrongByteAndAVerdictInTime) {
  for (size_t kind = 0; kind < fault::kFaultKinds; ++kind) {
    for (const double chance : {1.0, 0.3}) {
      SimClusterOptions options;
      options.nodes_apart = 1;
      SimCluster cluster(kind + 1, options);
      fault::FaultFabric faulty(cluster.client_fabric(0), cluster.world().clock(), kind);
      auto client = cluster.connect(0, {}, &faulty).value();
      Engine engine(*client, 512, 8);
      for (uint64_t number = 0; number < 6; ++number) {
        ASSERT_EQ(engine.put(test_key(number), number + 1).code, Code::kOk);
        ASSERT_EQ(engine.fetch(test_key(number)).verdict, Verdict::kReady);
      }
      fault::FaultPlan plan;
      plan.chance[kind] = chance;
      plan.late_max_ns = 5 * kMillisecond;
      faulty.set_plan(plan);
      for (uint64_t round = 0; round < 60; ++round) {
        const uint64_t number = round % 6;
        const PageVerdict verdict = engine.fetch(test_key(number), 0, 10 * kMillisecond);
        EXPECT_LE(verdict.took_ns, 10 * kMillisecond) << fault::kFaultNames[kind];
        if (verdict.verdict != Verdict::kReady) continue;
        EXPECT_EQ(engine.put_number_of(test_key(number)), number + 1) << fault::kFaultNames[kind];
      }
      const auto of = static_cast<fault::FaultKind>(kind);
      const bool is_of_reads =
          of != fault::FaultKind::kFlippedWrite && of != fault::FaultKind::kFlippedAtRest;
      EXPECT_EQ(faulty.injected().of(of) > 0, is_of_reads) << fault::kFaultNames[kind];
      faulty.set_plan({});
      cluster.world().run_until(cluster.now_ns() + kSecond);
      EXPECT_EQ(engine.fetch(test_key(1)).verdict, Verdict::kReady) << fault::kFaultNames[kind];
    }
  }
}

}  // namespace
}  // namespace farpage
