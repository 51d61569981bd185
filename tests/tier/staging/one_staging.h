#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/units.h"
#include "pagetable/touch_log.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tier/staging/staging.h"

namespace farpage {

// A staging between two simulated hosts, and the node's end of it.
class OneStaging : public testing::Test {
 protected:
  static constexpr uint64_t kPutBytes = 128 * kKiB;
  static constexpr uint64_t kReuseNs = 20 * kMillisecond;

  explicit OneStaging(const sim::SimOptions& options = {}) : client_(world_, options) {
    auto offered = node_.offer_channel(ChannelPurpose::kStage).value();
    target_ = std::move(offered.target);
    memory_ = target_->allocate_writable(kPutBytes + kTouchLogBytes).value();
    staging_ =
        Staging::connect(client_, std::move(offered.offer), node_.export_region(memory_).value(),
                         world_.clock(), kReuseNs, kNever)
            .value();
    local_ = client_.register_local({bytes_.data(), bytes_.size()}).value();
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 7 + i / 256);
  }

  uint64_t now() const { return world_.now_ns(); }
  void run_for(uint64_t ns) { world_.run_until(now() + ns); }
  Staging::Written write(const Staging::Segment& segment, uint64_t bytes, uint64_t in_ns) {
    const Slice source = local_.slice(0, bytes);
    return staging_->write(segment, {&source, 1}, now() + in_ns);
  }
  // Those that have come since the last call.
  std::vector<uint32_t> immediates() {
    std::vector<uint32_t> all(16);
    all.resize(target_->poll(all));
    return all;
  }
  const TouchLog& log() const {
    return *reinterpret_cast<const TouchLog*>(memory_.data() + kPutBytes);
  }
  // One of which all slots are the same.
  void touch(uint32_t slot) {
    std::array<uint32_t, kTouchBlockSlots> block;
    block.fill(slot);
    staging_->touched(block);
  }
  // How many whole blocks of it are in the log's ring.
  int blocks_of(uint32_t slot) const {
    int found = 0;
    for (uint32_t block = 0; block < kTouchBlocks; ++block) {
      const auto slots = std::span(log().slots).subspan(block * kTouchBlockSlots, kTouchBlockSlots);
      found += std::ranges::all_of(slots, [&](uint32_t each) { return each == slot; }) ? 1 : 0;
    }
    return found;
  }

  sim::World world_{1};
  sim::SimFabric node_{world_, {}};
  sim::SimFabric client_;
  std::unique_ptr<Target> target_;
  Region memory_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kPutBytes);
  Region local_;
  std::shared_ptr<Staging> staging_;
};

}  // namespace farpage
