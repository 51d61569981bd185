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

// Counts what is there of another fabric: passive channels, and the memory that their peers may
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

  Result<PassiveChannel> offer_channel(ChannelPurpose purpose) override {
    auto passive = ForwardingFabric::offer_channel(purpose);
    if (passive) {
      passive->channel = std::make_unique<CountedChannel>(std::move(passive->channel), *this);
    }
    return passive;
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

  class CountedChannel final : public Channel {
   public:
    CountedChannel(std::unique_ptr<Channel> channel, CountingFabric& fabric)
        : channel_(std::move(channel)), fabric_(fabric), log_(fabric.log_) {
      ++log_->channels;
    }
    ~CountedChannel() override {
      channel_.reset();
      log_->end(log_->channels, "channel");
    }
    Result<Region> allocate_writable(uint64_t bytes) override {
      fabric_.before_allocating();
      auto region = channel_->allocate_writable(bytes);
      if (!region) return region;
      const MemoryRange range = {region->data(), region->bytes(), region->kind(), region->device()};
      const Access access = region->access();
      const uint64_t key = region->slice(0, 0).local_key;
      return Region(range, access, key, std::make_unique<CountedMemory>(std::move(*region), log_));
    }
    Result<RemoteRegion> import_region(RegionExport region) override {
      return channel_->import_region(std::move(region));
    }
    PostResult post(std::span<const Operation> operations, uint64_t deadline_ns) override {
      return channel_->post(operations, deadline_ns);
    }
    size_t poll(std::span<Completion> completions) override { return channel_->poll(completions); }
    void wait(uint64_t deadline_ns) override { channel_->wait(deadline_ns); }
    void close() override { channel_->close(); }

   private:
    std::unique_ptr<Channel> channel_;
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
