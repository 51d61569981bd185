// I6: what the device refuses to a peer that holds true keys and keeps to no protocol.
#include <array>
#include <thread>

#include "tests/support/posting.h"
#include "tests/transport/verbs/raw_peer.h"
#include "tests/transport/verbs/softroce.h"
#include "tests/transport/verbs/verbs_backends.h"
#include "transport/traffic.h"

namespace farpage::contract {
namespace {

constexpr uint64_t kBytes = 64 * 1024;

class VerbsHostilePeer : public ContractTest {
 protected:
  // Let in as every client is, with a channel of its own.
  struct Intruder {
    std::unique_ptr<Target> target;
    std::unique_ptr<verbs::RawPeer> peer;
  };

  void SetUp() override {
    ContractTest::SetUp();
    victim_ = make_link(ChannelPurpose::kRead, kBytes);
    fill(victim_.remote_region.data(), kBytes);
    pool_ = wire_of(victim_.remote_region);
  }

  verbs::RegionWire wire_of(const Region& region) {
    const auto exported = harness_->passive().export_region(region).value();
    return verbs::decode_region(exported.opaque, exported.bytes).value();
  }

  Intruder intrude(ChannelPurpose purpose) {
    auto offered = harness_->passive().offer_channel(purpose).value();
    const auto offer = verbs::decode_offer(offered.offer.opaque).value();
    Intruder intruder = {std::move(offered.target), std::make_unique<verbs::RawPeer>("rxe0")};
    EXPECT_TRUE(
        intruder.peer->connect(offer.endpoints[0], {verbs::kMagic, 0, offer.channel, kOwner}));
    return intruder;
  }

  // How a request of a new intruder ends, while the victim reads on; nothing may land at the
  // intruder.
  ibv_wc_status attack(ChannelPurpose purpose, ibv_wr_opcode opcode, uint64_t address, uint32_t key,
                       uint64_t bytes) {
    Intruder intruder = intrude(purpose);
    std::vector<Operation> reads;
    for (uint64_t i = 0; i < kBytes / 1024; ++i) {
      reads.push_back(read_operation(victim_, i * 1024, i * 1024, 1024));
    }
    std::fill(victim_.memory.begin(), victim_.memory.end(), kUntouched);
    EXPECT_EQ(post_all(*victim_.initiator, reads), reads.size());
    const ibv_wc_status status = intruder.peer->request(opcode, address, key, bytes);
    EXPECT_TRUE(all_ok(collect(*victim_.initiator, reads.size())));
    EXPECT_EQ(first_difference(victim_.memory.data(), kBytes, 0), kBytes);
    EXPECT_TRUE(intruder.peer->untouched());
    return status;
  }

  static bool is_zero(const Region& region) {
    return std::all_of(region.data(), region.data() + region.bytes(),
                       [](std::byte b) { return b == std::byte{0}; });
  }

  static constexpr uint64_t kOwner = 7;
  Link victim_;
  verbs::RegionWire pool_;
};

INSTANTIATE_TEST_SUITE_P(Verbs, VerbsHostilePeer, testing::Values(one_device(), over_the_network()),
                         backend_name);

// The others are refused for what is wrong with them, and not because nobody gets anything.
TEST_P(VerbsHostilePeer, ATrueReadIsServed) {
  Intruder intruder = intrude(ChannelPurpose::kRead);
  EXPECT_EQ(intruder.peer->request(IBV_WR_RDMA_READ, pool_.address, pool_.keys[0], 4096),
            IBV_WC_SUCCESS);
  EXPECT_FALSE(intruder.peer->untouched());
}

TEST_P(VerbsHostilePeer, ReadsWithAKeyThatIsNoneAreRefused) {
  for (const uint32_t key : {0u, pool_.keys[0] ^ 1, pool_.keys[0] ^ 0x100, ~0u}) {
    EXPECT_EQ(attack(ChannelPurpose::kRead, IBV_WR_RDMA_READ, pool_.address, key, 64),
              IBV_WC_REM_ACCESS_ERR)
        << key;
  }
}

TEST_P(VerbsHostilePeer, ReadsOutsideTheRegionAreRefused) {
  struct Case {
    uint64_t address;
    uint64_t bytes;
  };
  const uint64_t begin = pool_.address;
  const uint64_t end = begin + kBytes;
  for (const auto [address, bytes] :
       {Case{begin - 1, 64}, Case{begin - 64, 64}, Case{end - 63, 64}, Case{end, 1},
        Case{end - kBytes + 1, kBytes}, Case{0, 64}, Case{UINT64_MAX - 31, 64}}) {
    EXPECT_EQ(attack(ChannelPurpose::kRead, IBV_WR_RDMA_READ, address, pool_.keys[0], bytes),
              IBV_WC_REM_ACCESS_ERR)
        << address - begin << " + " << bytes;
  }
}

// It would be locked with the client's first word.
TEST_P(VerbsHostilePeer, StagingBeyondTheMemoryOfTheHostIsRefused) {
  auto offered = harness_->passive().offer_channel(ChannelPurpose::kStage).value();
  const auto refused = offered.target->allocate_writable(uint64_t{1} << 45);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_NE(refused.error().message.find("lower client.staging_bytes"), std::string::npos)
      << refused.error().message;
}

// Each is given up for the next one.
TEST_P(VerbsHostilePeer, AChannelThatIsDialledAgainAndAgainHasOneConnection) {
  auto offered = harness_->passive().offer_channel(ChannelPurpose::kRead).value();
  const auto offer = verbs::decode_offer(offered.offer.opaque).value();
  const auto& ports = dynamic_cast<const PortSource&>(harness_->passive());
  const auto connections = [&] { return ports.ports()[0].connections; };
  const uint64_t before = connections();
  // The peer may hear of its connection before it is counted here.
  const auto settles_at = [&](uint64_t count) {
    const uint64_t deadline_ns = soon();
    while (connections() != count && harness_->clock().now_ns() < deadline_ns) {
      std::this_thread::yield();
    }
    return connections() == count;
  };
  std::vector<std::unique_ptr<verbs::RawPeer>> peers;
  for (int i = 0; i < 8; ++i) {
    peers.push_back(std::make_unique<verbs::RawPeer>("rxe0"));
    ASSERT_TRUE(
        peers.back()->connect(offer.endpoints[0], {verbs::kMagic, 0, offer.channel, kOwner}));
    EXPECT_TRUE(settles_at(before + 1));
  }
  EXPECT_EQ(peers.back()->request(IBV_WR_RDMA_READ, pool_.address, pool_.keys[0], 64),
            IBV_WC_SUCCESS);
  peers.clear();
  EXPECT_TRUE(settles_at(before));
}

TEST_P(VerbsHostilePeer, AKeyIsWorthNothingOnceItsRegionIsGone) {
  auto gone = harness_->passive().allocate_readable(kBytes).value();
  const verbs::RegionWire key = wire_of(gone);
  gone = Region();
  const auto next = harness_->passive().allocate_readable(kBytes).value();
  for (const uint64_t address : {key.address, wire_of(next).address}) {
    EXPECT_EQ(attack(ChannelPurpose::kRead, IBV_WR_RDMA_READ, address, key.keys[0], 64),
              IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_P(VerbsHostilePeer, ThePoolTakesNoWrites) {
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    EXPECT_EQ(attack(purpose, IBV_WR_RDMA_WRITE, pool_.address, pool_.keys[0], 64),
              IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(attack(purpose, IBV_WR_RDMA_WRITE_WITH_IMM, pool_.address, pool_.keys[0], 4096),
              IBV_WC_REM_ACCESS_ERR);
    EXPECT_NE(attack(purpose, IBV_WR_ATOMIC_FETCH_AND_ADD, pool_.address, pool_.keys[0], 8),
              IBV_WC_SUCCESS);
  }
  EXPECT_EQ(first_difference(victim_.remote_region.data(), kBytes, 0), kBytes);
}

TEST_P(VerbsHostilePeer, StagingOfAnotherClientTakesNoWrites) {
  Link owner = make_link(ChannelPurpose::kStage, 4096);
  const verbs::RegionWire staging = wire_of(owner.remote_region);
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    EXPECT_EQ(attack(purpose, IBV_WR_RDMA_WRITE, staging.address, staging.keys[0], 64),
              IBV_WC_REM_ACCESS_ERR);
  }
  EXPECT_TRUE(is_zero(owner.remote_region));
}

TEST_P(VerbsHostilePeer, StagingIsReadByNobody) {
  Link owner = make_link(ChannelPurpose::kStage, 4096);
  const verbs::RegionWire staging = wire_of(owner.remote_region);
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    EXPECT_EQ(attack(purpose, IBV_WR_RDMA_READ, staging.address, staging.keys[0], 64),
              IBV_WC_REM_ACCESS_ERR);
  }
  Intruder own = intrude(ChannelPurpose::kStage);
  const auto region = own.target->allocate_writable(4096).value();
  const verbs::RegionWire wire = wire_of(region);
  EXPECT_EQ(own.peer->request(IBV_WR_RDMA_WRITE, wire.address, wire.keys[0], 64), IBV_WC_SUCCESS);
  EXPECT_FALSE(is_zero(region));
  EXPECT_EQ(own.peer->request(IBV_WR_RDMA_READ, wire.address, wire.keys[0], 64),
            IBV_WC_REM_ACCESS_ERR);
}

TEST_P(VerbsHostilePeer, WhatIsNoIntroductionIsRefusedAndTheListenerGoesOn) {
  const auto offered = harness_->passive().offer_channel(ChannelPurpose::kRead).value();
  const auto offer = verbs::decode_offer(offered.offer.opaque).value();
  const verbs::ConnectWire good = {verbs::kMagic, 0, offer.channel, kOwner};
  const std::string_view text(reinterpret_cast<const char*>(&good), sizeof good);
  const auto let_in = [&](const auto& introduction) {
    return verbs::RawPeer("rxe0").connect(offer.endpoints[0], introduction);
  };
  EXPECT_FALSE(let_in(std::string_view()));
  EXPECT_FALSE(let_in(std::string(56, '\xFF')));
  EXPECT_FALSE(let_in(std::string(56, '\0')));
  EXPECT_FALSE(let_in(text.substr(0, 4)));
  EXPECT_FALSE(let_in(text.substr(0, 16)));
  EXPECT_FALSE(let_in(verbs::ConnectWire{verbs::kMagic + 1, 0, offer.channel, kOwner}));
  EXPECT_FALSE(let_in(verbs::ConnectWire{verbs::kMagic, 0, make_channel_id(), kOwner}));
  for (const uint32_t path : {1u, 7u, 8u, ~0u}) {
    EXPECT_FALSE(let_in(verbs::ConnectWire{verbs::kMagic, path, offer.channel, kOwner})) << path;
  }
  EXPECT_TRUE(let_in(good));
}

TEST_P(VerbsHostilePeer, AChannelThatIsTakenIsNobodyElses) {
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    auto offered = harness_->passive().offer_channel(purpose).value();
    const auto offer = verbs::decode_offer(offered.offer.opaque).value();
    auto owner = take_up(std::move(offered.offer), soon()).value();
    EXPECT_FALSE(verbs::RawPeer("rxe0").connect(offer.endpoints[0],
                                                {verbs::kMagic, 0, offer.channel, kOwner}));
    const bool stage = purpose == ChannelPurpose::kStage;
    auto region = stage ? offered.target->allocate_writable(64).value()
                        : harness_->passive().allocate_readable(64).value();
    Operation operation = read_operation(victim_, 0, 0, 64);
    if (stage) operation.kind = OperationKind::kWrite;
    operation.remote = import_whole(*owner, *harness_->passive().export_region(region)).value();
    EXPECT_EQ(post_all(*owner, {&operation, 1}), 1u);
    EXPECT_TRUE(all_ok(collect(*owner, 1)));
    offered.target.reset();
    EXPECT_FALSE(verbs::RawPeer("rxe0").connect(offer.endpoints[0],
                                                {verbs::kMagic, 0, offer.channel, kOwner}));
  }
}

TEST_P(VerbsHostilePeer, ClientsThatVanishLeaveNoQueuePairs) {
  constexpr size_t kClients = 64;
  const std::string node = GetParam().name == "one_device" ? "rxe0" : "rxe2";
  const uint64_t before = queue_pairs(node);
  std::vector<Intruder> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(intrude(i % 2 == 0 ? ChannelPurpose::kRead : ChannelPurpose::kStage));
  }
  EXPECT_GE(queue_pairs(node), before + kClients);
  for (Intruder& client : clients) client.peer.reset();
  const uint64_t deadline_ns = soon();
  while (queue_pairs(node) > before && harness_->clock().now_ns() < deadline_ns) {
  }
  EXPECT_EQ(queue_pairs(node), before);
  const Operation read = read_operation(victim_, 0, 0, 4096);
  EXPECT_EQ(post_all(*victim_.initiator, {&read, 1}), 1u);
  EXPECT_TRUE(all_ok(collect(*victim_.initiator, 1)));
}

}  // namespace
}  // namespace farpage::contract
