#include <unistd.h>

#include <algorithm>
#include <array>

#include "tests/support/posting.h"
#include "tests/transport/contract/contract.h"

namespace farpage::contract {
namespace {

// Only what the peer says of its region is known when it is imported: where that is a lie, the peer
// itself stands in the way.
TEST_P(FabricContract, ARegionThatIsSaidToBeLargerIsReachedNoFurther) {
  constexpr uint64_t kBytes = 8192;
  struct Case {
    uint64_t offset;
    uint64_t bytes;
  };
  // The others see it when they import it.
  const auto backend = harness_->active().capabilities().backend;
  const bool imports_it = backend == "tcp" || backend == "verbs";
  for (const auto [offset, bytes] : {Case{kBytes - 63, 64}, Case{kBytes, 1}, Case{kBytes + 1, 1},
                                     Case{0, kBytes + 1}, Case{1, kBytes}, Case{3 * kBytes, 64}}) {
    for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
      Link link = make_link(purpose, kBytes);
      auto exported = harness_->passive().export_region(link.remote_region);
      ASSERT_TRUE(exported);
      exported->bytes = 4 * kBytes;
      const auto larger = import_whole(*link.initiator, std::move(*exported));
      ASSERT_EQ(larger.has_value(), imports_it);
      if (!larger) continue;
      std::vector<std::byte> large(2 * kBytes, kUntouched);
      auto local = harness_->active().register_local({.data = large.data(), .bytes = large.size()});
      ASSERT_TRUE(local);
      Operation operation = read_operation(link, offset, 0, 0);
      operation.remote = *larger;
      if (purpose == ChannelPurpose::kStage) operation.kind = OperationKind::kWrite;
      operation.local[0] = local->slice(0, bytes);
      EXPECT_TRUE(refused(*link.initiator, operation)) << offset << " + " << bytes;
      harness_->settle();
      EXPECT_TRUE(untouched(large));
      EXPECT_TRUE(std::all_of(link.remote_region.data(), link.remote_region.data() + kBytes,
                              [](std::byte b) { return b == std::byte{0}; }));
    }
  }
}

TEST_P(FabricContract, ARegionThatDoesNotServeItsUseIsNotImported) {
  constexpr uint64_t kBytes = 8192;
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    Link link = make_link(purpose, kBytes);
    const bool reads = purpose == ChannelPurpose::kRead;
    const Access access = reads ? Access::kRemoteRead : Access::kRemoteWrite;
    const Access other = reads ? Access::kRemoteWrite : Access::kRemoteRead;
    const auto import_for = [&](const RegionUse& use) {
      auto exported = harness_->passive().export_region(link.remote_region);
      return link.initiator->import_region(std::move(*exported), use);
    };
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kBytes}) {
      EXPECT_TRUE(import_for({access, bytes})) << bytes;
    }
    for (const RegionUse& use : {RegionUse{access, kBytes + 1}, RegionUse{access, UINT64_MAX},
                                 RegionUse{other, kBytes}, RegionUse{Access::kLocal, kBytes}}) {
      const auto refused = import_for(use);
      ASSERT_FALSE(refused) << use.bytes;
      EXPECT_EQ(refused.error().code, Code::kProtocol);
    }
  }
}

TEST_P(FabricContract, AnOperationOnMemoryThatIsNotRegisteredCostsNoOtherOne) {
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    Link link = make_link(purpose, 4096);
    std::vector<std::byte> gone(64, kUntouched);
    const Slice slice = harness_->active().register_local({gone.data(), 64}).value().slice(0, 64);
    std::array<Operation, 3> operations;
    for (uint64_t i = 0; i < operations.size(); ++i) {
      operations[i] = read_operation(link, i * 64, i * 64, 64, i);
      if (purpose == ChannelPurpose::kStage) operations[i].kind = OperationKind::kWrite;
    }
    operations[1].local[0] = slice;
    ASSERT_EQ(post_all(*link.initiator, operations), 3u);
    const auto ended = collect(*link.initiator, 3);
    EXPECT_EQ(tags(ended), tags_up_to(3));
    for (const Completion& completion : ended) {
      EXPECT_EQ(completion.outcome, completion.tag == 1 ? Outcome::kRefused : Outcome::kOk);
    }
    // The next ones as well.
    ASSERT_EQ(post_all(*link.initiator, {&operations[2], 1}), 1u);
    EXPECT_TRUE(all_ok(collect(*link.initiator, 1)));
    harness_->settle();
    EXPECT_TRUE(untouched(gone));
  }
}

// No target hears that something is there of which a part is not.
TEST_P(FabricContract, WhatFollowsARefusedWriteIsRefusedToo) {
  Link link = make_link(ChannelPurpose::kStage, 4096);
  fill(link.memory.data(), link.memory.size());
  std::vector<std::byte> gone(64, kUntouched);
  std::array<Operation, 4> writes;
  for (uint64_t i = 0; i < writes.size(); ++i) {
    writes[i] = write_operation(link, i * 64, i * 64, 64, i);
    writes[i].follows = i == 1 || i == 2;
    writes[i].has_immediate = i >= 2;
    writes[i].immediate = static_cast<uint32_t>(i);
  }
  writes[0].local[0] = harness_->active().register_local({gone.data(), 64}).value().slice(0, 64);
  ASSERT_EQ(post_all(*link.initiator, writes), 4u);
  const auto ended = collect(*link.initiator, 4);
  EXPECT_EQ(tags(ended), tags_up_to(4));
  for (const Completion& completion : ended) {
    EXPECT_EQ(completion.outcome, completion.tag == 3 ? Outcome::kOk : Outcome::kRefused);
  }
  EXPECT_EQ(collect(*link.target, 1), std::vector<uint32_t>{3});
  harness_->settle();
  uint32_t none = 0;
  EXPECT_EQ(link.target->poll({&none, 1}), 0u);
  EXPECT_TRUE(std::all_of(link.remote_region.data(), link.remote_region.data() + 3 * 64,
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST_P(FabricContract, ADestroyedRegionIsReachedByNobody) {
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    Link link = make_link(purpose, 4096);
    Operation operation = read_operation(link, 0, 0, 4096);
    if (purpose == ChannelPurpose::kStage) operation.kind = OperationKind::kWrite;
    link.remote_region = Region();
    // Takes its place, where the backend uses names or memory again.
    Result<Region> next = purpose == ChannelPurpose::kRead
                              ? harness_->passive().allocate_readable(4096)
                              : link.target->allocate_writable(4096);
    ASSERT_TRUE(next);
    EXPECT_TRUE(refused(*link.initiator, operation));
    EXPECT_TRUE(untouched(link.memory));
    EXPECT_EQ(next->data()[0], std::byte{0});
  }
}

TEST_P(FabricContract, GarbageExportsAreRefused) {
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    Link link = make_link(purpose, 4096);
    const auto import_changed = [&](auto change) {
      auto exported = harness_->passive().export_region(link.remote_region);
      EXPECT_TRUE(exported);
      change(*exported);
      return import_whole(*link.initiator, std::move(*exported));
    };
    EXPECT_TRUE(import_changed([](RegionExport&) {}));
    EXPECT_FALSE(import_changed([](RegionExport& region) {
      region.opaque.resize(region.opaque.size() / 2);
      region.fd.reset();
    }));
    EXPECT_FALSE(import_changed([](RegionExport& region) {
      region.opaque.clear();
      region.fd.reset();
    }));
    EXPECT_FALSE(import_changed([](RegionExport& region) { region.opaque.append(100, '\xff'); }));
    EXPECT_FALSE(import_changed([](RegionExport& region) { region.bytes = uint64_t{1} << 63; }));
    EXPECT_FALSE(import_changed([](RegionExport& region) { region.bytes = UINT64_MAX; }));
    EXPECT_FALSE(import_changed([](RegionExport& region) { region.bytes = 0; }));
    EXPECT_FALSE(import_changed([](RegionExport& region) { region.access = Access::kLocal; }));
    EXPECT_FALSE(import_changed([](RegionExport& region) { region.access = Access{250}; }));
    EXPECT_FALSE(import_changed([](RegionExport& region) { region.place.kind = MemoryKind{250}; }));
  }
}

TEST_P(FabricContract, LocalMemoryIsExportedToNobody) {
  Link link = make_link(ChannelPurpose::kRead, 4096);
  EXPECT_FALSE(harness_->active().export_region(link.local));
  EXPECT_FALSE(harness_->active().export_region(Region()));
}

TEST_P(FabricContract, GarbageOffersAreRefused) {
  const auto connect_changed = [&](auto change) {
    auto offered = harness_->passive().offer_channel(ChannelPurpose::kRead);
    EXPECT_TRUE(offered);
    change(offered->offer);
    return take_up(std::move(offered->offer), soon());
  };
  EXPECT_TRUE(connect_changed([](ChannelOffer&) {}));
  EXPECT_FALSE(connect_changed([](ChannelOffer& offer) {
    offer.opaque.resize(offer.opaque.size() / 2);
    offer.fd.reset();
  }));
  EXPECT_FALSE(connect_changed([](ChannelOffer& offer) { offer.opaque.append(100, 'x'); }));
}

TEST_P(FabricContract, AnOfferIsTakenUpOnce) {
  auto offered = harness_->passive().offer_channel(ChannelPurpose::kRead);
  ASSERT_TRUE(offered);
  ChannelOffer copy;
  copy.purpose = offered->offer.purpose;
  copy.opaque = offered->offer.opaque;
  if (offered->offer.fd.valid()) copy.fd.reset(::dup(offered->offer.fd.get()));
  EXPECT_TRUE(take_up(std::move(offered->offer), soon()));
  EXPECT_FALSE(take_up(std::move(copy), soon()));
}

// I6.
TEST_P(ProtectionContract, AReadableRegionTakesNoWrites) {
  ASSERT_TRUE(harness_->active().capabilities().protects_regions);
  for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
    Link link = make_link(purpose, 4096);
    auto pool = harness_->passive().allocate_readable(4096);
    ASSERT_TRUE(pool);
    for (const Access claimed : {Access::kRemoteRead, Access::kRemoteWrite}) {
      auto exported = harness_->passive().export_region(*pool);
      ASSERT_TRUE(exported);
      exported->access = claimed;
      auto remote =
          link.initiator->import_region(std::move(*exported), {Access::kRemoteWrite, 4096});
      if (!remote) continue;
      Operation write = write_operation(link, 0, 0, 4096);
      write.remote = *remote;
      EXPECT_TRUE(refused(*link.initiator, write));
    }
    harness_->settle();
    EXPECT_TRUE(std::all_of(pool->data(), pool->data() + 4096,
                            [](std::byte b) { return b == std::byte{0}; }));
  }
}

// I6.
TEST_P(ProtectionContract, StagingOfAnotherChannelTakesNoWrites) {
  Link mine = make_link(ChannelPurpose::kStage, 4096);
  Link theirs = make_link(ChannelPurpose::kStage, 4096);
  auto stolen = harness_->passive().export_region(theirs.remote_region);
  ASSERT_TRUE(stolen);
  auto remote = import_whole(*mine.initiator, std::move(*stolen));
  if (remote) {
    Operation write = write_operation(mine, 0, 0, 4096);
    write.remote = *remote;
    EXPECT_TRUE(refused(*mine.initiator, write));
  }
  harness_->settle();
  EXPECT_TRUE(std::all_of(theirs.remote_region.data(), theirs.remote_region.data() + 4096,
                          [](std::byte b) { return b == std::byte{0}; }));
}

// I6.
TEST_P(ProtectionContract, StagingIsReadByNobody) {
  Link stage = make_link(ChannelPurpose::kStage, 4096);
  Link link = make_link(ChannelPurpose::kRead, 4096);
  for (const Access claimed : {Access::kRemoteRead, Access::kRemoteWrite}) {
    auto exported = harness_->passive().export_region(stage.remote_region);
    ASSERT_TRUE(exported);
    exported->access = claimed;
    auto remote = link.initiator->import_region(std::move(*exported), {Access::kRemoteRead, 4096});
    if (!remote) continue;
    Operation read = read_operation(link, 0, 0, 4096);
    read.remote = *remote;
    EXPECT_TRUE(refused(*link.initiator, read));
  }
  harness_->settle();
  EXPECT_TRUE(untouched(link.memory));
}

}  // namespace
}  // namespace farpage::contract
