#pragma once

#include <memory>
#include <utility>

#include "transport/fabric.h"

namespace farpage {

// An initiator that is another one, which it owns, but for what is overridden.
class ForwardingInitiator : public Initiator {
 public:
  explicit ForwardingInitiator(std::unique_ptr<Initiator> inner) : inner_(std::move(inner)) {}

  Result<RemoteRegion> import_region(RegionExport region, const RegionUse& use) override {
    return inner_->import_region(std::move(region), use);
  }
  size_t room() const override { return inner_->room(); }
  Operation& next() override { return inner_->next(); }
  Status post() override { return inner_->post(); }
  size_t poll(std::span<Completion> completions) override { return inner_->poll(completions); }
  void wait(uint64_t deadline_ns) override { inner_->wait(deadline_ns); }
  int descriptor() const override { return inner_->descriptor(); }
  uint64_t arm() override { return inner_->arm(); }
  uint64_t spin_ns() const override { return inner_->spin_ns(); }
  void close() override { inner_->close(); }

 protected:
  Initiator& inner() { return *inner_; }
  const Initiator& inner() const { return *inner_; }
  // For the destructor of one with memory that the inner one's operations touch.
  void end_inner() { inner_.reset(); }

 private:
  std::unique_ptr<Initiator> inner_;
};

}  // namespace farpage
