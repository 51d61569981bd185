#pragma once

#include <functional>
#include <utility>

#include "pagetable/epoch_register.h"
#include "sim/network/world.h"

namespace farpage {

// A register in a test's own hands: it answers a moment later, or not at all.
class OneRegister final : public EpochRegister {
 public:
  OneRegister(sim::World& world, Epoch first) : world_(world) { current.epoch = std::move(first); }
  void read(std::function<void(Result<RegisteredEpoch>)> done) override {
    ++reads;
    world_.after(takes_ns, [this, done = std::move(done)] {
      done(answers ? Result<RegisteredEpoch>(current) : fail(Code::kTimeout, "no answer"));
    });
  }
  void replace(uint64_t number, Epoch next, std::function<void(Result<void>)> done) override {
    ++replaces;
    if (refuses) return refuse(std::move(done));
    if (number == current.epoch.number) current = {std::move(next), {}};
    world_.after(kMillisecond, [done = std::move(done)] { done({}); });
  }
  void confirm(NodeId node, uint64_t number, std::function<void(Result<void>)> done) override {
    ++confirms;
    if (refuses) return refuse(std::move(done));
    if (number == current.epoch.number) current.confirmed.push_back(node);
    world_.after(kMillisecond, [done = std::move(done)] { done({}); });
  }

  RegisteredEpoch current;
  uint64_t takes_ns = kMillisecond;  // a read
  bool answers = true;
  bool refuses = false;  // to write
  int reads = 0;
  int replaces = 0;
  int confirms = 0;

 private:
  void refuse(std::function<void(Result<void>)> done) {
    world_.after(kMillisecond,
                 [done = std::move(done)] { done(fail(Code::kUnavailable, "not now")); });
  }

  sim::World& world_;
};

}  // namespace farpage
