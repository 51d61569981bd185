#include <unistd.h>

#include <algorithm>
#include <array>

#include "tests/transport/contract.h"

namespace farpage::contract {
namespace {

TEST_P(FabricContract, OutsideTheRegionNothingIsReadOrWritten) {
  constexpr uint64_t kBytes = 8192;
  struct Case {
    uint64_t offset;
    uint64_t bytes;
  };
  for (const auto [offset, bytes] :
       {Case{kBytes - 63, 64}, Case{kBytes, 1}, Case{kBytes + 1, 1}, Case{UINT64_MAX, 1},
        Case{UINT64_MAX - 63, 64}, Case{UINT64_MAX - 62, 64}, Case{0, kBytes + 1},
        Case{1, kBytes}}) {
    for (const ChannelPurpose purpose : {ChannelPurpose::kRead, ChannelPurpose::kStage}) {
      Link link = make_link(purpose, kBytes);
      std::vector<std::byte> large(2 * kBytes, kUntouched);
      auto local = harness_->active().register_local({.data = large.data(), .bytes = large.size()});
      ASSERT_TRUE(local);
      Operation operation = read_operation(link, offset, 0, 0);
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

TEST_P(FabricContract, MalformedOperationsAreRefused) {
  Link link = make_link(ChannelPurpose::kRead, 4096);
  Operation three_slices = read_operation(link, 0, 0, 64);
  three_slices.local_count = 3;
  Operation unknown_region = read_operation(link, 0, 0, 64);
  unknown_region.remote.index += 1;
  Operation other_generation = read_operation(link, 0, 0, 64);
  other_generation.remote.generation += 1;
  for (const Operation& bad : {three_slices, unknown_region, other_generation}) {
    const PostResult posted = link.initiator->post({&bad, 1}, kNever);
    EXPECT_EQ(posted.accepted, 0u);
    EXPECT_FALSE(posted.status.ok());
  }
  const std::array batch{read_operation(link, 0, 0, 64, 7), other_generation};
  const PostResult posted = link.initiator->post(batch, kNever);
  EXPECT_EQ(posted.accepted, 1u);
  EXPECT_FALSE(posted.status.ok());
  const auto ended = collect(*link.initiator, 1);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].tag, 7u);
  EXPECT_TRUE(all_ok(ended));
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
      return link.initiator->import_region(std::move(*exported));
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
      auto remote = link.initiator->import_region(std::move(*exported));
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
  auto remote = mine.initiator->import_region(std::move(*stolen));
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
    auto remote = link.initiator->import_region(std::move(*exported));
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
