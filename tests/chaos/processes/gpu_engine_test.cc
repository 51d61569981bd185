// A client of the attack whose pages land in a GPU's memory, over the fake driver.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "chaos/processes/engine.h"
#include "chaos/processes/gpu_frames.h"
#include "tests/support/cluster.h"
#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage::processes {
namespace {

constexpr uint64_t kLongNs = 60 * kSecond;

class ProcessesGpuEngine : public FakeDriverTest {
 protected:
  std::unique_ptr<Engine> connect(Destination destination = Destination::kGpu) {
    return Engine::make("client", cluster_.connect(), checker_, keys_,
                        cluster_.options().page_bytes, 1, destination)
        .value();
  }
  bool finish(Engine& engine) { return engine.finish(boottime_clock().now_ns() + kLongNs); }
  void expect_nothing_found() const {
    for (const Finding& finding : checker_.findings()) ADD_FAILURE() << finding;
  }
  bool found_only(FindingKind kind) const {
    const std::vector<Finding> findings = checker_.findings();
    return !findings.empty() &&
           std::ranges::all_of(findings, [=](const Finding& it) { return it.kind == kind; });
  }

  Cluster cluster_{Path::kTcp};
  Keys keys_{32, 8};
  Checker checker_;
  std::vector<size_t> some_ = {0, 1, 2, 3};
};

// What the fixture finds in the driver at the end has leaked.
TEST_F(ProcessesGpuEngine, FindsNothingWhereNothingIsWrong) {
  start({.seed = 3, .delay_us = 300});
  std::array<std::unique_ptr<Engine>, 2> engines = {connect(), connect()};
  for (auto& engine : engines) engine->start();
  const auto has_done_all = [](const std::unique_ptr<Engine>& engine) {
    const Engine::Counts& counts = engine->counts();
    return counts.ready > 50 && counts.puts_acknowledged > 50;
  };
  while (!std::ranges::all_of(engines, has_done_all)) std::this_thread::yield();
  for (auto& engine : engines) {
    EXPECT_TRUE(engine->stop(boottime_clock().now_ns() + kLongNs));
    EXPECT_TRUE(finish(*engine));
  }
  expect_nothing_found();
}

// Of which no checksum of the host's knows.
TEST_F(ProcessesGpuEngine, FindsAByteThatTheCopyToTheGpuHasSpoiled) {
  start({.spoil_every = 1});
  const auto engine = connect(Destination::kGpuUnchecked);
  engine->put(some_, kLongNs);
  for (const PageVerdict& page : engine->fetch(some_, kLongNs)) {
    EXPECT_EQ(page.verdict, Verdict::kReady);
  }
  EXPECT_TRUE(found_only(FindingKind::kWrongBytes));
  EXPECT_TRUE(finish(*engine));
}

TEST_F(ProcessesGpuEngine, GivesPagesBackThatWereHeldAtTheirDeadline) {
  start({.delay_us = 10'000});
  const auto engine = connect();
  engine->put(some_, kLongNs);
  const auto is_held = [](const PageVerdict& page) { return page.place == Place::kHeld; };
  bool was_held = false;
  // The least time in which pages are on their way to the GPU depends on the machine.
  for (uint64_t in_ns = kMillisecond; !was_held; in_ns += in_ns / 8) {
    was_held = std::ranges::any_of(engine->fetch(some_, in_ns), is_held);
    if (in_ns > kSecond) in_ns = kMillisecond;
  }
  EXPECT_TRUE(finish(*engine));
  expect_nothing_found();
}

TEST_F(ProcessesGpuEngine, SaysWhatTheDriverHasRefused) {
  const auto engine = connect();
  fake_->fail_call("cuMemsetD8Async", 1, cuda::kInvalidValue);
  engine->put({&some_[0], 1}, kLongNs);
  ASSERT_TRUE(found_only(FindingKind::kUnfinished));
  EXPECT_NE(checker_.findings()[0].sentence.find("CUDA_ERROR_INVALID_VALUE"), std::string::npos);
}

TEST_F(ProcessesGpuEngine, WithoutADriverThatWorksIsASentence) {
  fake_->fail_call("cuMemAlloc_v2", 1, 2);  // out of memory
  const auto refused = Engine::make("client", cluster_.connect(), checker_, keys_,
                                    cluster_.options().page_bytes, 1, Destination::kGpu);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("memory of the GPU"), std::string::npos);
}

TEST_F(ProcessesGpuEngine, FindsNothingInBlocksWhereNothingIsWrong) {
  start({.seed = 3, .delay_us = 300});
  const Keys keys(32, 8, true);
  const auto engine = Engine::make("client", cluster_.connect(), checker_, keys,
                                   cluster_.options().page_bytes, 1, Destination::kGpuBlocks)
                          .value();
  engine->put(some_, kLongNs);
  for (const PageVerdict& page : engine->fetch(some_, kLongNs)) {
    EXPECT_EQ(page.verdict, Verdict::kReady);
  }
  EXPECT_TRUE(finish(*engine));
  expect_nothing_found();
}

TEST_F(ProcessesGpuEngine, FramesOfBlocksLieInPieces) {
  const auto client = cluster_.connect();
  const auto frames = GpuFrames::make(*client, 3, 64, Destination::kGpuBlocks,
                                      [](const std::string& why) { ADD_FAILURE() << why; });
  ASSERT_TRUE(frames);
  for (size_t frame = 0; frame < 3; ++frame) (*frames)->fill(frame, std::byte(frame + 1));
  std::vector<std::byte> bytes(64);
  for (size_t frame = 0; frame < 3; ++frame) {
    (*frames)->read(frame, bytes);
    EXPECT_EQ(bytes, std::vector<std::byte>(64, std::byte(frame + 1)));
  }
}

TEST_F(ProcessesGpuEngine, FramesAreThoseOfTheDevice) {
  const auto client = cluster_.connect();
  const auto frames = GpuFrames::make(*client, 3, 64, Destination::kGpu,
                                      [](const std::string& why) { ADD_FAILURE() << why; });
  ASSERT_TRUE(frames);
  for (size_t frame = 0; frame < 3; ++frame) (*frames)->fill(frame, std::byte(frame + 1));
  std::vector<std::byte> bytes(64);
  (*frames)->read(1, bytes);
  EXPECT_EQ(bytes, std::vector<std::byte>(64, std::byte{2}));
  const auto address = reinterpret_cast<uint64_t>((*frames)->slice(1, 64).data);
  const std::byte written{0x77};
  ASSERT_EQ(fake_->nic_write(address + 63, &written, 1, cuda::NicWrite::kOvertakes), 0);
  (*frames)->read(1, bytes);
  EXPECT_EQ(bytes[63], written);
}

}  // namespace
}  // namespace farpage::processes
