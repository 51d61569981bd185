#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/support/posting.h"

namespace farpage::sim {
namespace {

constexpr std::byte kUntouched{0xEE};

// Two hosts, and one channel between them with a region of the server that the client has imported.
struct Pair {
  Pair(uint64_t seed, const SimOptions& options, ChannelPurpose purpose = ChannelPurpose::kRead,
       uint64_t bytes = 64 * 1024)
      : world(seed), server(world, options), client(world, options), memory(bytes, kUntouched) {
    OfferedTarget offered = server.offer_channel(purpose).value();
    target = std::move(offered.target);
    initiator = client.connect(std::move(offered.offer), kNever).value();
    region = purpose == ChannelPurpose::kRead ? server.allocate_readable(bytes).value()
                                              : target->allocate_writable(bytes).value();
    remote = import_whole(*initiator, server.export_region(region).value()).value();
    local = client.register_local({.data = memory.data(), .bytes = bytes}).value();
  }

  Operation read(uint64_t offset, uint64_t bytes, uint64_t tag = 0) const {
    Operation operation;
    operation.local_count = 1;
    operation.tag = tag;
    operation.remote = remote;
    operation.remote_offset = offset;
    operation.local[0] = local.slice(offset, bytes);
    return operation;
  }
  Operation write(uint64_t offset, uint64_t bytes, uint64_t tag = 0) const {
    Operation operation = read(offset, bytes, tag);
    operation.kind = OperationKind::kWrite;
    return operation;
  }

  // A region that the server has no more: the responder refuses what goes there.
  RemoteRegion import_gone() {
    const bool reads = region.access() == Access::kRemoteRead;
    const Region gone = reads ? server.allocate_readable(region.bytes()).value()
                              : target->allocate_writable(region.bytes()).value();
    return import_whole(*initiator, server.export_region(gone).value()).value();
  }

  void post(const Operation& operation) {
    EXPECT_EQ(post_operations(*initiator, {&operation, 1}).accepted, 1u);
  }
  static std::vector<Completion> poll(Initiator& initiator) {
    std::vector<Completion> all(2048);
    all.resize(initiator.poll(all));
    return all;
  }
  static std::vector<uint32_t> poll(Target& target) {
    std::vector<uint32_t> all(2048);
    all.resize(target.poll(all));
    return all;
  }
  void pass(uint64_t ns) { world.run_until(world.now_ns() + ns); }
  bool memory_untouched() const {
    return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == kUntouched; });
  }

  World world;
  SimFabric server;
  SimFabric client;
  std::unique_ptr<Target> target;
  std::unique_ptr<Initiator> initiator;
  Region region;
  RemoteRegion remote;
  std::vector<std::byte> memory;
  Region local;
};

TEST(World, RunsEventsInOrderOfTimeThenOfPosting) {
  World world(1);
  std::vector<int> order;
  world.after(20, [&] { order.push_back(3); });
  world.after(10, [&] {
    order.push_back(1);
    world.after(10, [&] { order.push_back(4); });
  });
  world.after(10, [&] { order.push_back(2); });
  world.run_until(kSecond + 19);
  EXPECT_EQ(order, (std::vector{1, 2}));
  EXPECT_EQ(world.now_ns(), kSecond + 19);
  world.run_until(kSecond + 20);
  EXPECT_EQ(order, (std::vector{1, 2, 3, 4}));
}

TEST(World, WaitStopsWhenReadyAndOtherwiseAtTheDeadline) {
  World world(1);
  bool ready = false;
  world.after(500, [&] { ready = true; });
  world.after(600, [] {});
  EXPECT_TRUE(world.wait_until(kNever, [&] { return ready; }));
  EXPECT_EQ(world.now_ns(), kSecond + 500);
  EXPECT_FALSE(world.wait_until(kSecond + 5000, [] { return false; }));
  EXPECT_EQ(world.now_ns(), kSecond + 5000);
}

TEST(WorldDeathTest, WaitingInACallbackOrForNothingForeverIsAMistake) {
  World world(1);
  EXPECT_DEATH((void)world.wait_until(kNever, [] { return false; }), "deadline_ns != kNever");
  world.after(1, [&] { world.run_until(kNever - 1); });
  EXPECT_DEATH(world.run_until(2 * kSecond), "in_callback_");
}

// A hash of what a client sees, and when.
uint64_t history(uint64_t seed) {
  Pair pair(seed, {.loss = 0.1, .reorder = 0.2, .tear = 0.5, .fail = 0.001});
  uint64_t hash = 14695981039346656037u;
  const auto mix = [&hash](uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (uint64_t i = 0; i < 400; ++i) {
    pair.post(pair.read(i * 64, 64 * (1 + i % 5), i));
    pair.initiator->wait(pair.world.now_ns() + kMicrosecond);
    for (const Completion& completion : pair.poll(*pair.initiator)) {
      mix(completion.tag);
      mix(static_cast<uint64_t>(completion.outcome));
      mix(pair.world.now_ns());
      if (completion.outcome == Outcome::kFailed) return hash;
    }
  }
  return hash;
}

TEST(SimFabric, TheSameSeedGivesTheSameHistory) {
  std::map<uint64_t, uint64_t> seen;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const uint64_t hash = history(seed);
    EXPECT_EQ(hash, history(seed));
    EXPECT_TRUE(seen.emplace(hash, seed).second) << seed << " and " << seen[hash];
  }
}

// How many of 200 reads show bytes of two rounds of a writer that rewrites everything at each step.
int mixed_reads(double tear) {
  constexpr uint64_t kBytes = 4096;
  Pair pair(3, {.tear = tear}, ChannelPurpose::kRead, kBytes);
  uint8_t round = 0;
  std::function<void()> rewrite = [&] {
    std::memset(pair.region.data(), ++round, kBytes);
    pair.world.after(700, rewrite);
  };
  rewrite();
  int mixed = 0;
  for (int i = 0; i < 200; ++i) {
    pair.post(pair.read(0, kBytes));
    pair.initiator->wait(kNever);
    EXPECT_EQ(pair.poll(*pair.initiator).size(), 1u);
    const auto differs = [&](std::byte b) { return b != pair.memory[0]; };
    mixed += std::any_of(pair.memory.begin(), pair.memory.end(), differs);
    for (uint64_t line = 0; line < kBytes; line += 64) {
      const std::byte* begin = &pair.memory[line];
      EXPECT_TRUE(std::all_of(begin, begin + 64, [&](std::byte b) { return b == *begin; }));
    }
  }
  return mixed;
}

TEST(SimFabric, TearingMixesOldAndNewLinesAndNothingElseDoes) {
  EXPECT_EQ(mixed_reads(0), 0);
  EXPECT_GT(mixed_reads(1), 50);
}

TEST(SimFabric, CompletionsComeInOrderUnlessReordered) {
  for (const double reorder : {0.0, 0.3}) {
    Pair pair(5, {.delay_max_ns = 100'000, .reorder = reorder});
    for (uint64_t i = 0; i < 500; ++i) pair.post(pair.read(i * 64, 64, i));
    pair.pass(kSecond);
    const std::vector<Completion> ended = pair.poll(*pair.initiator);
    ASSERT_EQ(ended.size(), 500u);
    EXPECT_EQ(reorder == 0, std::is_sorted(ended.begin(), ended.end(),
                                           [](auto& a, auto& b) { return a.tag < b.tag; }));
  }
}

TEST(SimFabric, LostCompletionsComeOnlyWithClose) {
  Pair pair(7, {.loss = 0.3});
  for (uint64_t i = 0; i < 500; ++i) pair.post(pair.read(i * 64, 64, i));
  pair.pass(100 * kSecond);
  const size_t in_time = pair.poll(*pair.initiator).size();
  EXPECT_GT(in_time, 250u);
  EXPECT_LT(in_time, 450u);
  pair.initiator->close();
  pair.pass(kSecond);
  const std::vector<Completion> aborted = pair.poll(*pair.initiator);
  EXPECT_EQ(aborted.size(), 500 - in_time);
  for (const Completion& completion : aborted) EXPECT_EQ(completion.outcome, Outcome::kAborted);
}

TEST(SimFabric, LostReadsMayLandLateButNotAfterTheirAbortion) {
  int landed_late = 0;
  int cut_off = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Pair pair(seed, {.loss = 1}, ChannelPurpose::kRead, 64);
    pair.post(pair.read(0, 64));
    pair.pass(kMillisecond);
    if (!pair.memory_untouched()) continue;  // landed in time, only the completion was lost
    pair.pass(kSecond / 2);
    landed_late += !pair.memory_untouched();
    cut_off += pair.memory_untouched();
    std::fill(pair.memory.begin(), pair.memory.end(), kUntouched);
    pair.initiator->close();
    pair.initiator->wait(kNever);
    ASSERT_EQ(pair.poll(*pair.initiator).size(), 1u);
    pair.pass(10 * kSecond);
    EXPECT_TRUE(pair.memory_untouched());
  }
  EXPECT_GT(landed_late, 3);
  EXPECT_GT(cut_off, 3);
}

TEST(SimFabric, AnImmediateNeverComesBeforeEarlierBytesEvenIfTheyAreLate) {
  int seen = 0;
  int missing = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Pair pair(seed, {.loss = 0.2, .tear = 1}, ChannelPurpose::kStage, 4096);
    std::memset(pair.memory.data(), 0x5A, 4096);
    pair.post(pair.write(0, 1024));
    pair.post(pair.write(1024, 3000));
    Operation last = pair.write(4024, 72);
    last.has_immediate = true;
    last.immediate = 9;
    pair.post(last);
    pair.target->wait(pair.world.now_ns() + 10 * kSecond);
    const std::vector<uint32_t> at_peer = pair.poll(*pair.target);
    if (at_peer.empty()) {
      ++missing;
      continue;
    }
    ++seen;
    ASSERT_EQ(at_peer.size(), 1u);
    EXPECT_EQ(at_peer[0], 9u);
    EXPECT_EQ(std::memcmp(pair.region.data(), pair.memory.data(), 4096), 0);
  }
  EXPECT_GT(seen, 50);
  EXPECT_GT(missing, 5);
}

TEST(SimFabric, ADeadPeerAnswersNothing) {
  Pair pair(1, {});
  pair.post(pair.read(0, 64, 1));
  pair.pass(kSecond);
  EXPECT_EQ(pair.poll(*pair.initiator).size(), 1u);
  std::fill(pair.memory.begin(), pair.memory.end(), kUntouched);
  pair.post(pair.read(0, 64, 2));
  pair.server.die();
  pair.post(pair.read(0, 64, 3));
  OfferedTarget late = pair.server.offer_channel(ChannelPurpose::kRead).value();
  EXPECT_FALSE(pair.client.connect(std::move(late.offer), kNever));
  pair.pass(100 * kSecond);
  EXPECT_TRUE(pair.poll(*pair.initiator).empty());
  EXPECT_TRUE(pair.memory_untouched());
  pair.initiator->close();
  pair.pass(kSecond);
  EXPECT_EQ(pair.poll(*pair.initiator).size(), 2u);
}

TEST(SimFabric, AWriterThatDiesStopsWriting) {
  Pair pair(1, {}, ChannelPurpose::kStage);
  pair.post(pair.write(0, 4096));
  pair.client.die();
  pair.pass(kSecond);
  EXPECT_EQ(pair.region.data()[0], std::byte{0});
}

// I5: what makes a paused node dangerous.
TEST(SimFabric, APausedProcessStandsStillButItsMemoryAnswers) {
  Pair pair(1, {});
  int ran = 0;
  pair.server.runtime().after(kMillisecond, [&] { ++ran; });
  pair.server.pause();
  pair.post(pair.read(0, 64));
  pair.pass(kSecond);
  EXPECT_EQ(pair.poll(*pair.initiator).size(), 1u);
  EXPECT_EQ(ran, 0);
  pair.server.resume();
  pair.pass(1);
  EXPECT_EQ(ran, 1);

  pair.client.pause();
  pair.post(pair.read(0, 64));
  pair.pass(kSecond);
  EXPECT_TRUE(pair.poll(*pair.initiator).empty());
  pair.client.resume();
  EXPECT_EQ(pair.poll(*pair.initiator).size(), 1u);

  pair.server.runtime().after(kMillisecond, [&] { ++ran; });
  pair.server.die();
  pair.pass(kSecond);
  EXPECT_EQ(ran, 1);
}

TEST(SimFabric, AClockThatJumpsEndsTheWaitsWhoseDeadlineItPasses) {
  Pair pair(21, {.delay_min_ns = kMillisecond, .delay_max_ns = kMillisecond});
  Runtime& runtime = pair.client.runtime();
  const auto now = [&] { return runtime.clock().now_ns(); };
  const uint64_t begin = now();
  bool fired = false;
  runtime.after(2 * kMillisecond, [&] { fired = true; });
  for (const uint64_t after : {1'000, 3'000, 5'000}) {
    pair.world.after(after, [&] { pair.client.jump_clock(kSecond); });
  }
  EXPECT_FALSE(runtime.wait_until(begin + kSecond, [] { return false; }));
  EXPECT_EQ(pair.world.now_ns(), begin + 1'000);
  pair.post(pair.read(0, 64));
  pair.initiator->wait(begin + 2 * kSecond);
  EXPECT_EQ(pair.world.now_ns(), begin + 3'000);
  EXPECT_FALSE(runtime.wait_until(now() + 5'000, [] { return false; }));
  EXPECT_EQ(pair.world.now_ns(), begin + 5'000);
  EXPECT_EQ(now(), begin + 5'000 + 3 * kSecond);
  EXPECT_EQ(pair.server.runtime().clock().now_ns(), pair.world.now_ns());
  // A deadline that no jump reaches is waited for, and timers take the time that they did.
  EXPECT_TRUE(runtime.wait_until(now() + kSecond, [&] { return fired; }));
  EXPECT_EQ(pair.world.now_ns(), begin + 2 * kMillisecond);
  pair.client.jump_clock(kSecond);
  pair.initiator->wait(now() + kSecond);
  EXPECT_EQ(pair.poll(*pair.initiator).size(), 1u);
  EXPECT_LT(pair.world.now_ns(), begin + 5 * kMillisecond);
}

TEST(SimFabric, AMachineThatIsHeldKnowsItByItsWallClockAlone) {
  Pair pair(21, {});
  Runtime& runtime = pair.client.runtime();
  const uint64_t begin = pair.world.now_ns();
  const auto passed = [&](const Clock& clock) { return clock.now_ns() - begin; };
  uint64_t fired_ns = 0;
  runtime.after(5 * kMillisecond, [&] { fired_ns = pair.world.now_ns() - begin; });
  pair.pass(kMillisecond);
  pair.client.hold(kSecond);
  bool told = false;
  pair.world.after(kMillisecond, [&] { runtime.after(0, [&] { told = true; }); });
  pair.pass(kSecond - 1);
  EXPECT_FALSE(told) << "nothing runs there meanwhile";
  pair.pass(1);
  EXPECT_TRUE(told);
  EXPECT_EQ(passed(runtime.clock()), kMillisecond);
  EXPECT_EQ(passed(runtime.wall_clock()), kSecond + kMillisecond);
  pair.pass(kSecond);
  EXPECT_EQ(fired_ns, kSecond + 5 * kMillisecond) << "its timers stood still, too";
  EXPECT_EQ(passed(pair.server.runtime().clock()), 2 * kSecond + kMillisecond);
}

TEST(SimFabric, TheResponderChecksWhatTheRequesterDidNotAndTheChannelBreaks) {
  Pair pair(1, {});
  Operation refused = pair.read(0, 64, 2);
  refused.remote = pair.import_gone();
  pair.post(pair.read(0, 64, 1));
  pair.post(refused);
  pair.post(pair.read(0, 64, 3));
  pair.pass(kSecond);
  const std::vector<Completion> ended = pair.poll(*pair.initiator);
  ASSERT_EQ(ended.size(), 3u);
  EXPECT_EQ(ended[0].outcome, Outcome::kOk);
  EXPECT_EQ(ended[1].outcome, Outcome::kFailed);
  EXPECT_NE(ended[1].vendor, 0);
  EXPECT_EQ(ended[2].outcome, Outcome::kAborted);
  const Operation more = pair.read(0, 64);
  EXPECT_EQ(post_operations(*pair.initiator, {&more, 1}).status.code, Code::kUnavailable);
}

TEST(SimFabric, AWriteBehindARefusedOneDoesNotLand) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Pair pair(seed, {.tear = 0.5}, ChannelPurpose::kStage);
    Operation refused = pair.write(0, 64);
    refused.remote = pair.import_gone();
    pair.post(refused);
    Operation next = pair.write(0, 64);
    next.has_immediate = true;
    pair.post(next);
    pair.pass(kSecond);
    EXPECT_EQ(pair.region.data()[0], std::byte{0}) << seed;
    EXPECT_TRUE(pair.poll(*pair.target).empty()) << seed;
  }
}

TEST(SimFabric, WhatHasNotBeenPolledIsStillInFlight) {
  Pair pair(1, {});
  const std::vector<Operation> reads(1024, pair.read(0, 64));
  EXPECT_EQ(post_operations(*pair.initiator, reads).accepted, 1024u);
  pair.pass(kSecond);
  EXPECT_EQ(post_operations(*pair.initiator, reads).accepted, 0u);
  std::array<Completion, 10> some;
  EXPECT_EQ(pair.initiator->poll(some), 10u);
  EXPECT_EQ(post_operations(*pair.initiator, reads).accepted, 10u);
}

TEST(SimFabric, AReplacedRegionHasAnotherKey) {
  Pair pair(1, {}, ChannelPurpose::kRead, 4096);
  RegionExport old = pair.server.export_region(pair.region).value();
  pair.region = Region();
  pair.region = pair.server.allocate_readable(4096).value();
  const Result<RemoteRegion> stale = import_whole(*pair.initiator, std::move(old));
  ASSERT_TRUE(stale) << "hardware cannot know";
  Operation read = pair.read(0, 64);
  read.remote = *stale;
  pair.post(read);
  pair.pass(kSecond);
  EXPECT_EQ(pair.poll(*pair.initiator).at(0).outcome, Outcome::kFailed);
  EXPECT_TRUE(pair.memory_untouched());
}

TEST(SimFabric, LocalMemoryIsTouchedOnlyWhileItIsRegistered) {
  Pair pair(1, {});
  Operation unregistered = pair.read(0, 64);
  std::array<std::byte, 64> elsewhere{};
  unregistered.local[0].data = elsewhere.data();
  pair.post(unregistered);
  EXPECT_EQ(pair.poll(*pair.initiator).at(0).outcome, Outcome::kRefused);
  pair.post(pair.read(0, 64));
  pair.local = Region();
  pair.pass(kSecond);
  EXPECT_EQ(pair.poll(*pair.initiator).at(0).outcome, Outcome::kFailed);
  EXPECT_TRUE(pair.memory_untouched());
}

TEST(SimFabric, OnlyRegionsForTheChannelsPurposeAreImported) {
  Pair pair(1, {}, ChannelPurpose::kStage);
  const Region pool = pair.server.allocate_readable(64).value();
  const auto refused = import_whole(*pair.initiator, pair.server.export_region(pool).value());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kProtocol);
}

TEST(SimFabric, ChannelsAndRegionsOutliveTheirFabric) {
  World world(1);
  auto server = std::make_unique<SimFabric>(world, SimOptions{});
  auto client = std::make_unique<SimFabric>(world, SimOptions{});
  OfferedTarget offered = server->offer_channel(ChannelPurpose::kRead).value();
  auto initiator = client->connect(std::move(offered.offer), kNever).value();
  Region region = server->allocate_readable(64).value();
  RemoteRegion remote = import_whole(*initiator, server->export_region(region).value()).value();
  std::array<std::byte, 64> memory{};
  Region local = client->register_local({.data = memory.data(), .bytes = 64}).value();
  server.reset();
  client.reset();
  region.data()[0] = std::byte{42};
  Operation read;
  read.local_count = 1;
  read.remote = remote;
  read.local[0] = local.slice(0, 64);
  ASSERT_EQ(post_operations(*initiator, {&read, 1}).accepted, 1u);
  initiator->wait(kNever);
  EXPECT_EQ(memory[0], std::byte{42});
}

}  // namespace
}  // namespace farpage::sim
