#include "sim/network/world.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/network/network.h"

namespace farpage::sim {

World::World(uint64_t seed) : random_(seed), network_(std::make_shared<Network>(*this)) {}

World::~World() = default;

bool World::later(const Event& a, const Event& b) {
  return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.sequence > b.sequence;
}

void World::after(uint64_t delay_ns, std::function<void()> callback) {
  const uint64_t time_ns = delay_ns > kNever - clock_.now ? kNever : clock_.now + delay_ns;
  events_.push_back({time_ns, next_sequence_++, std::move(callback)});
  std::push_heap(events_.begin(), events_.end(), later);
}

void World::step() {
  std::pop_heap(events_.begin(), events_.end(), later);
  Event event = std::move(events_.back());
  events_.pop_back();
  clock_.now = event.time_ns;
  in_callback_ = true;
  event.callback();
  in_callback_ = false;
}

bool World::wait_until(uint64_t deadline_ns, const std::function<bool()>& ready) {
  FARPAGE_CHECK(!in_callback_);
  while (!ready()) {
    if (!due(deadline_ns)) {
      FARPAGE_CHECK(deadline_ns != kNever);
      clock_.now = std::max(clock_.now, deadline_ns);
      return ready();
    }
    step();
  }
  return true;
}

void World::run_until(uint64_t time_ns) {
  (void)wait_until(time_ns, [] { return false; });
}

__extension__ using Wide = unsigned __int128;

uint64_t World::random_below(uint64_t bound) {
  return static_cast<uint64_t>(static_cast<Wide>(random()) * bound >> 64);
}

uint64_t World::random_between(uint64_t least, uint64_t most) {
  return least + random_below(most - least + 1);
}

bool World::chance(double probability) {
  return static_cast<double>(random() >> 11) * 0x1.0p-53 < probability;
}

}  // namespace farpage::sim
