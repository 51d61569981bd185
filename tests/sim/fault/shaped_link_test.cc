#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "sim/fault/shaped_fabric.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/support/posting.h"
#include "tests/transport/contract/contract.h"

namespace farpage::fault {
namespace {

constexpr uint64_t kBytes = 1'000;
constexpr uint64_t kPages = 4;
// A page takes 1 µs on the link, and 100 µs more until it is there; the network under it is faster.
constexpr LinkShape kShape = {.latency_ns = 100 * kMicrosecond, .bytes_per_s = 1'000'000'000};

class ShapedLinkTest : public ::testing::Test {
 protected:
  struct Reader {
    std::unique_ptr<Target> target;
    std::unique_ptr<Initiator> initiator;
    RemoteRegion remote;
  };

  ShapedLinkTest() {
    contract::fill(pool_.data(), pool_.bytes(), 7);
    shaped_.shape(kShape);
  }

  Reader open() {
    auto offered = server_.offer_channel(ChannelPurpose::kRead).value();
    auto initiator = shaped_.connect(std::move(offered.offer), kNever).value();
    const auto remote = import_whole(*initiator, server_.export_region(pool_).value()).value();
    return {std::move(offered.target), std::move(initiator), remote};
  }
  void read(Reader& reader, uint64_t page) {
    Operation operation;
    operation.local_count = 1;
    operation.tag = 70 + page;
    operation.remote = reader.remote;
    operation.remote_offset = page * kBytes;
    operation.local[0] = local_.slice(page * kBytes, kBytes);
    ASSERT_EQ(post_operations(*reader.initiator, {&operation, 1}).accepted, 1u);
  }
  // The operations that have completed by then.
  std::vector<uint64_t> tags_by(Reader& reader, uint64_t at_ns) {
    std::vector<uint64_t> tags;
    while (world_.now_ns() < at_ns) {
      reader.initiator->wait(at_ns);
      std::array<Completion, 16> some;
      const size_t count = reader.initiator->poll(some);
      for (const Completion& each : std::span(some).first(count)) {
        EXPECT_EQ(each.outcome, Outcome::kOk);
        tags.push_back(each.tag);
      }
    }
    return tags;
  }
  static uint64_t us(uint64_t microseconds) { return microseconds * kMicrosecond; }

  sim::World world_{1};
  sim::SimFabric server_{world_, {.delay_max_ns = 10 * kMicrosecond}};
  sim::SimFabric client_{world_, {.delay_max_ns = 10 * kMicrosecond}};
  ShapedFabric shaped_{client_, world_.clock()};
  Region pool_ = server_.allocate_readable(kPages * kBytes).value();
  std::vector<std::byte> memory_ = std::vector<std::byte>(kPages * kBytes);
  Region local_ = shaped_.register_local({memory_.data(), memory_.size()}).value();
};

using Tags = std::vector<uint64_t>;

TEST_F(ShapedLinkTest, PagesFollowEachOtherAndOverlapTheirLatencies) {
  Reader reader = open();
  const uint64_t begin = world_.now_ns();
  for (uint64_t page = 0; page < kPages; ++page) read(reader, page);
  EXPECT_EQ(tags_by(reader, begin + us(101) - 1), Tags());
  EXPECT_EQ(tags_by(reader, begin + us(102)), Tags({70, 71}));
  EXPECT_EQ(tags_by(reader, begin + us(104)), Tags({72, 73}));
  EXPECT_EQ(std::memcmp(memory_.data(), pool_.data(), memory_.size()), 0);
}

TEST_F(ShapedLinkTest, AllChannelsShareIt) {
  Reader one = open();
  Reader other = open();
  const uint64_t begin = world_.now_ns();
  read(one, 0);
  read(one, 1);
  read(other, 2);
  EXPECT_EQ(tags_by(other, begin + us(103) - 1), Tags());
  EXPECT_EQ(tags_by(other, begin + us(103)), Tags({72}));
  // Its second page begins when its own channel is next looked at.
  EXPECT_EQ(tags_by(one, begin + us(203)), Tags({70, 71}));
}

TEST_F(ShapedLinkTest, IsNoFasterThanTheRealOne) {
  shaped_.shape({});
  client_.set_options({.delay_min_ns = us(500), .delay_max_ns = us(500)});
  Reader reader = open();
  const uint64_t begin = world_.now_ns();
  read(reader, 0);
  EXPECT_EQ(tags_by(reader, begin + us(499)), Tags());
  EXPECT_EQ(tags_by(reader, begin + us(2'000)), Tags({70}));
}

TEST_F(ShapedLinkTest, APageIsReadWhenTheLinkIsFreeForItAndNoSooner) {
  Reader reader = open();
  const uint64_t begin = world_.now_ns();
  shaped_.shape({.latency_ns = 0, .bytes_per_s = 1'000'000});  // a page takes 1 ms
  read(reader, 0);
  read(reader, 1);
  EXPECT_EQ(tags_by(reader, begin + us(900)), Tags());
  contract::fill(pool_.data(), pool_.bytes(), 8);
  EXPECT_EQ(tags_by(reader, begin + us(2'100)), Tags({70, 71}));
  EXPECT_NE(std::memcmp(memory_.data(), pool_.data(), kBytes), 0);
  EXPECT_EQ(std::memcmp(memory_.data() + kBytes, pool_.data() + kBytes, kBytes), 0);
}

TEST_F(ShapedLinkTest, WhatIsOnItsWayEndsAsAbortedWithItsChannel) {
  Reader reader = open();
  read(reader, 0);
  read(reader, 1);
  tags_by(reader, world_.now_ns() + us(50));  // they have come, as far as the network goes
  reader.initiator->close();
  std::array<Completion, 4> ended;
  size_t count = 0;
  while (count < 2) {
    reader.initiator->wait(kNever);
    count += reader.initiator->poll(std::span(ended).subspan(count));
  }
  EXPECT_EQ(ended[0].outcome, Outcome::kAborted);
  EXPECT_EQ(ended[1].outcome, Outcome::kAborted);
}

}  // namespace
}  // namespace farpage::fault
