#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "base/clock.h"
#include "base/runtime.h"

namespace farpage::sim {

class Network;

// Virtual time and the one source of chance of a simulation: the same seed and the same calls give
// the same history. Events run in order of time, and of posting where the times are equal.
//
// Threading: one thread, unlike other runtimes. Outlives every fabric that is made on it.
class World : public Runtime {
 public:
  explicit World(uint64_t seed);
  ~World() override;

  const Clock& clock() const override { return clock_; }
  uint64_t now_ns() const { return clock_.now; }

  void after(uint64_t delay_ns, std::function<void()> callback) override;
  void offload(JobClass, std::function<void()> work) override { after(0, std::move(work)); }

  // `ready` is asked before and after each event. Waiting without a deadline for something that
  // nothing can bring any more is a programmer's mistake, and so is waiting inside a callback.
  bool wait_until(uint64_t deadline_ns, const std::function<bool()>& ready) override;
  void wake() override {}

  // Runs everything that is due by `time_ns`, which is the time afterwards.
  void run_until(uint64_t time_ns);

  uint64_t random() { return random_(); }
  uint64_t random_below(uint64_t bound);                   // in [0, bound), 0 for bound 0
  uint64_t random_between(uint64_t least, uint64_t most);  // in [least, most]
  bool chance(double probability);

  // State that the fabrics of this world share.
  const std::shared_ptr<Network>& network() const { return network_; }

 private:
  struct VirtualClock : Clock {
    uint64_t now = kSecond;
    uint64_t now_ns() const override { return now; }
  };
  struct Event {
    uint64_t time_ns;
    uint64_t sequence;
    std::function<void()> callback;
  };
  static bool later(const Event& a, const Event& b);

  bool due(uint64_t time_ns) const {
    return !events_.empty() && events_.front().time_ns <= time_ns;
  }
  void step();

  VirtualClock clock_;
  std::mt19937_64 random_;
  std::vector<Event> events_;  // a heap, the next one in front
  uint64_t next_sequence_ = 0;
  bool in_callback_ = false;
  std::shared_ptr<Network> network_;
};

}  // namespace farpage::sim
