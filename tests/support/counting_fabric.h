#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "transport/forwarding_fabric.h"

namespace farpage {

// Counts what is there of another fabric: targets of channels, and the memory that their peers may
// write. Thread-safe.
class CountingFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;

  // Before memory is allocated, on the thread that asks for it.
  std::function<void()> before_allocating = [] {};

  int channels() const { return log_->channels.load(); }
  int memories() const { return log_->memories.load(); }
  // "channel" and "memory", in the order in which they ended.
  std::vector<std::string> ended() const {
    const std::lock_guard lock(log_->mutex);
    return log_->ended;
  }

  Result<OfferedTarget> offer_channel(ChannelPurpose purpose) override {
    auto offered = ForwardingFabric::offer_channel(purpose);
    if (offered) {
      offered->target = std::make_unique<CountedTarget>(std::move(offered->target), *this);
    }
    return offered;
  }

 private:
  struct Log {
    void end(std::atomic<int>& count, const char* what) {
      const std::lock_guard lock(mutex);
      --count;
      ended.emplace_back(what);
    }

    std::atomic<int> channels = 0;
    std::atomic<int> memories = 0;
    mutable std::mutex mutex;
    std::vector<std::string> ended;
  };

  struct CountedMemory final : Region::Backing {
    CountedMemory(Region whole, std::shared_ptr<Log> its_log)
        : region(std::move(whole)), log(std::move(its_log)) {
      ++log->memories;
    }
    ~CountedMemory() override {
      region = {};
      log->end(log->memories, "memory");
    }
    Region region;
    std::shared_ptr<Log> log;
  };

  class CountedTarget final : public Target {
   public:
    CountedTarget(std::unique_ptr<Target> target, CountingFabric& fabric)
        : target_(std::move(target)), fabric_(fabric), log_(fabric.log_) {
      ++log_->channels;
    }
    ~CountedTarget() override {
      target_.reset();
      log_->end(log_->channels, "channel");
    }
    Result<Region> allocate_writable(uint64_t bytes) override {
      fabric_.before_allocating();
      auto region = target_->allocate_writable(bytes);
      if (!region) return region;
      const MemoryRange range = {region->data(), region->bytes(), region->place()};
      const Access access = region->access();
      const uint64_t key = region->slice(0, 0).local_key;
      return Region(range, access, key, std::make_unique<CountedMemory>(std::move(*region), log_));
    }
    size_t poll(std::span<uint32_t> immediates) override { return target_->poll(immediates); }
    void wait(uint64_t deadline_ns) override { target_->wait(deadline_ns); }
    void close() override { target_->close(); }

   private:
    std::unique_ptr<Target> target_;
    CountingFabric& fabric_;
    std::shared_ptr<Log> log_;
  };

 public:
  // Of memory that is counted, too.
  Result<RegionExport> export_region(const Region& region) override {
    const auto* counted = dynamic_cast<const CountedMemory*>(region.backing());
    return ForwardingFabric::export_region(counted == nullptr ? region : counted->region);
  }

 private:
  const std::shared_ptr<Log> log_ = std::make_shared<Log>();
};

}  // namespace farpage
