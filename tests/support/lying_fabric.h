#pragma once

#include <algorithm>
#include <deque>
#include <memory>

#include "tests/support/forwarding_fabric.h"

namespace farpage {

// A fabric whose reads of pages (two slices) can be made to lie below the completion: the one
// failure that neither a counter nor an outcome shows.
class LyingFabric final : public ForwardingFabric {
 public:
  struct Lies {
    int land_nothing =
        0;              // of the next so many reads no byte lands, and they complete all the same
    int flip_byte = 0;  // the next so many reads land with one byte of the payload changed
    uint64_t told = 0;
  };

  using ForwardingFabric::ForwardingFabric;

  Lies& lies() { return *lies_; }

  Result<std::unique_ptr<Channel>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    auto channel = ForwardingFabric::connect(std::move(offer), deadline_ns);
    if (!channel) return channel;
    return std::make_unique<LyingChannel>(std::move(*channel), lies_);
  }

 private:
  class LyingChannel final : public Channel {
   public:
    LyingChannel(std::unique_ptr<Channel> channel, std::shared_ptr<Lies> lies)
        : channel_(std::move(channel)), lies_(std::move(lies)) {}

    Result<Region> allocate_writable(uint64_t bytes) override {
      return channel_->allocate_writable(bytes);
    }
    Result<RemoteRegion> import_region(RegionExport region) override {
      return channel_->import_region(std::move(region));
    }

    PostResult post(std::span<const Operation> operations, uint64_t deadline_ns) override {
      size_t accepted = 0;
      for (const Operation& operation : operations) {
        const bool is_page = operation.kind == OperationKind::kRead && operation.local_count == 2;
        if (is_page && lies_->land_nothing > 0) {
          --lies_->land_nothing;
          ++lies_->told;
          Completion completion;
          completion.tag = operation.tag;
          made_up_.push_back(completion);
        } else {
          const PostResult posted = channel_->post({&operation, 1}, deadline_ns);
          if (posted.accepted == 0) return {accepted, posted.status};
          if (is_page && lies_->flip_byte > 0) {
            --lies_->flip_byte;
            to_flip_.push_back(operation);
          }
        }
        ++accepted;
      }
      return {accepted, {}};
    }

    size_t poll(std::span<Completion> completions) override {
      size_t count = 0;
      for (; count < completions.size() && !made_up_.empty(); made_up_.pop_front()) {
        completions[count++] = made_up_.front();
      }
      const size_t real = channel_->poll(completions.subspan(count));
      for (const Completion& completion : completions.subspan(count, real)) flip(completion);
      return count + real;
    }

    void wait(uint64_t deadline_ns) override {
      if (made_up_.empty()) channel_->wait(deadline_ns);
    }
    void close() override { channel_->close(); }

   private:
    void flip(const Completion& completion) {
      const auto found = std::ranges::find(to_flip_, completion.tag, &Operation::tag);
      if (found == to_flip_.end()) return;
      const Slice& payload = found->local[1];
      payload.data[payload.bytes / 2] ^= std::byte{0x10};
      ++lies_->told;
      to_flip_.erase(found);
    }

    std::unique_ptr<Channel> channel_;
    std::shared_ptr<Lies> lies_;
    std::deque<Completion> made_up_;
    std::deque<Operation> to_flip_;
  };

  std::shared_ptr<Lies> lies_ = std::make_shared<Lies>();
};

}  // namespace farpage
