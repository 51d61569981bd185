// Beyond UCX's own promises: who is served, over which paths, and damaged bytes.
#include "transport/ucx/ucx_fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/clock.h"
#include "tests/support/posting.h"

namespace farpage::ucx {
namespace {

using testing::HasSubstr;

constexpr uint64_t kPatience = 10 * kSecond;

std::unique_ptr<Fabric> make(const std::string& transports, bool trusted_clients,
                             bool allow_emulated = false) {
  UcxOptions options;
  options.transports = transports;
  options.trusted_clients = trusted_clients;
  options.allow_emulated = allow_emulated;
  return make_ucx_fabric(options).value();
}

Result<std::unique_ptr<Initiator>> take_up(Fabric& client, ChannelPurpose purpose,
                                           const std::string& opaque) {
  ChannelOffer offer;
  offer.purpose = purpose;
  offer.opaque = opaque;
  return client.connect(std::move(offer), boottime_clock().now_ns() + kPatience);
}

TEST(UcxFabric, OnlyTrustedClientsAreServed) {
  const auto fabric = make("posix", false);
  const auto region = fabric->allocate_readable(4096);
  ASSERT_FALSE(region.has_value());
  EXPECT_EQ(region.error().code, Code::kDenied);
  EXPECT_THAT(region.error().message, HasSubstr("trusted_clients"));
  const auto offered = fabric->offer_channel(ChannelPurpose::kRead);
  ASSERT_FALSE(offered.has_value());
  EXPECT_EQ(offered.error().code, Code::kDenied);
  EXPECT_FALSE(fabric->capabilities().protects_regions);
}

TEST(UcxFabric, AnUnknownTransportIsNamed) {
  UcxOptions options;
  options.transports = "carrier_pigeon";
  const auto fabric = make_ucx_fabric(options);
  ASSERT_FALSE(fabric.has_value());
  EXPECT_THAT(fabric.error().message, HasSubstr("carrier_pigeon"));
  options.transports = "posix,tcp";
  options.devices = "no_such_device:1";
  const auto other = make_ucx_fabric(options);
  if (!other.has_value()) {
    EXPECT_THAT(other.error().message, HasSubstr("no_such_device"));
  }
}

TEST(UcxFabric, AnEmulatedPathIsRefusedByItsName) {
  for (const char* transports : {"tcp", "tcp,cma"}) {
    const auto node = make(transports, true);
    const auto client = make(transports, false);
    const auto offered = node->offer_channel(ChannelPurpose::kRead).value();
    const auto channel = take_up(*client, ChannelPurpose::kRead, offered.offer.opaque);
    ASSERT_FALSE(channel.has_value());
    EXPECT_EQ(channel.error().code, Code::kUnavailable);
    EXPECT_THAT(channel.error().message, HasSubstr("tcp/"));
    EXPECT_THAT(channel.error().message, HasSubstr("--allow-emulated"));
  }
}

TEST(UcxFabric, AnAllowedEmulationReadsAndSaysWhatItIs) {
  const auto node = make("tcp", true);
  const auto client = make("tcp", false, true);
  const auto offered = node->offer_channel(ChannelPurpose::kRead).value();
  auto channel = take_up(*client, ChannelPurpose::kRead, offered.offer.opaque).value();
  const Region pool = node->allocate_readable(100'000).value();
  pool.data()[99'999] = std::byte{7};
  std::vector<std::byte> memory(100'000);
  const Region local =
      client->register_local({.data = memory.data(), .bytes = memory.size()}).value();
  Operation read;
  read.remote = import_whole(*channel, node->export_region(pool).value()).value();
  read.local_count = 1;
  read.local[0] = local.slice(0, memory.size());
  ASSERT_EQ(post_operations(*channel, {&read, 1}).accepted, 1u);
  Completion ended;
  const uint64_t deadline = boottime_clock().now_ns() + kPatience;
  while (channel->poll({&ended, 1}) == 0 && boottime_clock().now_ns() < deadline) {
    channel->wait(deadline);
  }
  EXPECT_EQ(ended.outcome, Outcome::kOk);
  EXPECT_EQ(memory[99'999], std::byte{7});
  EXPECT_FALSE(client->capabilities().one_sided);
  EXPECT_THAT(std::string(client->capabilities().path), HasSubstr("tcp/"));
}

// A region that cannot be attached, on a path that could attach another.
TEST(UcxFabric, AnEmulatedRegionIsRefusedOnAGoodPath) {
  const auto node = make("posix,sysv", true);
  const auto client = make("posix", false);
  const auto offered = node->offer_channel(ChannelPurpose::kRead).value();
  auto channel = take_up(*client, ChannelPurpose::kRead, offered.offer.opaque);
  ASSERT_TRUE(channel.has_value()) << channel.error().message;
  const Region pool = node->allocate_readable(4096).value();  // UCX takes sysv first
  const auto remote = import_whole(**channel, node->export_region(pool).value());
  ASSERT_FALSE(remote.has_value());
  EXPECT_THAT(remote.error().message, HasSubstr("--allow-emulated"));
}

// UCX parses without knowing where the bytes end: what is damaged must not reach it.
TEST(UcxFabric, DamagedBytesAreRefusedWhereverTheyAre) {
  const auto node = make("posix", true);
  const auto client = make("posix", false);
  const auto offered = node->offer_channel(ChannelPurpose::kRead).value();
  const std::string& offer = offered.offer.opaque;
  const auto is_refused = [&](const std::string& damaged) {
    return !take_up(*client, ChannelPurpose::kRead, damaged).has_value();
  };
  for (size_t at = 0; at < offer.size(); ++at) {
    std::string damaged = offer;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_TRUE(is_refused(damaged)) << "byte " << at;
    EXPECT_TRUE(is_refused(offer.substr(0, at))) << "cut at " << at;
  }
  EXPECT_FALSE(take_up(*client, ChannelPurpose::kStage, offer).has_value());

  auto channel = take_up(*client, ChannelPurpose::kRead, offer).value();
  const Region pool = node->allocate_readable(4096).value();
  const auto import = [&](const std::string& opaque, uint64_t bytes) {
    RegionExport region;
    region.bytes = bytes;
    region.opaque = opaque;
    return import_whole(*channel, std::move(region)).has_value();
  };
  const std::string name = node->export_region(pool).value().opaque;
  EXPECT_TRUE(import(name, 4096));
  EXPECT_FALSE(import(name, 4095));
  EXPECT_FALSE(import(name, 4097));
  for (size_t at = 0; at < name.size(); ++at) {
    std::string damaged = name;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_FALSE(import(damaged, 4096)) << "byte " << at;
    EXPECT_FALSE(import(name.substr(0, at), 4096)) << "cut at " << at;
  }
}

TEST(UcxFabric, ARegionThatHasGoneIsNotImported) {
  const auto node = make("posix", true);
  const auto client = make("posix", false);
  const auto offered = node->offer_channel(ChannelPurpose::kRead).value();
  auto channel = take_up(*client, ChannelPurpose::kRead, offered.offer.opaque).value();
  Region pool = node->allocate_readable(4096).value();
  auto exported = node->export_region(pool).value();
  pool = Region();
  EXPECT_FALSE(import_whole(*channel, std::move(exported)).has_value());
}

TEST(UcxFabric, ManyClientsComeAndGoWithoutGoodbye) {
  const auto node = make("posix", true);
  std::vector<OfferedTarget> channels;
  for (int i = 0; i < 64; ++i) {
    const auto client = make("posix", false);
    channels.push_back(node->offer_channel(ChannelPurpose::kRead).value());
    EXPECT_TRUE(take_up(*client, ChannelPurpose::kRead, channels.back().offer.opaque).has_value());
  }
  channels.clear();
  const auto client = make("posix", false);
  const auto last = node->offer_channel(ChannelPurpose::kRead).value();
  EXPECT_TRUE(take_up(*client, ChannelPurpose::kRead, last.offer.opaque).has_value());
}

}  // namespace
}  // namespace farpage::ucx
