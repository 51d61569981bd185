#include <cstdio>
#include <cstdlib>

#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/transport/contract/contract.h"

namespace farpage::contract {
namespace {

using sim::SimFabric;
using sim::SimOptions;
using sim::World;

class SimHarness : public Harness {
 public:
  SimHarness(uint64_t seed, const SimOptions& options)
      : world_(seed), passive_(world_, options), active_(world_, options) {}

  Fabric& passive() override { return passive_; }
  Fabric& active() override { return active_; }
  const Clock& clock() const override { return world_.clock(); }
  void settle() override { world_.run_until(world_.now_ns() + 100 * kSecond); }

 private:
  World world_;
  SimFabric passive_;
  SimFabric active_;
};

// FARPAGE_SEED replaces the first seed, so that the names stay the same.
Backend backend(const std::string& name, uint64_t index, const SimOptions& options) {
  return {name + "_" + std::to_string(index),
          [index, options] {
            const char* text = std::getenv("FARPAGE_SEED");
            const uint64_t seed = (text ? std::strtoull(text, nullptr, 0) : 1) + index;
            std::printf("FARPAGE_SEED=%llu (for _0)\n", static_cast<unsigned long long>(seed));
            return std::make_unique<SimHarness>(seed, options);
          },
          options.fail > 0};
}

std::vector<Backend> seeds(const std::string& name, const SimOptions& options) {
  std::vector<Backend> backends;
  for (uint64_t index = 0; index < 4; ++index) backends.push_back(backend(name, index, options));
  return backends;
}

std::vector<Backend> reliable() {
  std::vector<Backend> all;
  const auto add = [&all](const std::string& name, const SimOptions& options) {
    const std::vector<Backend> more = seeds(name, options);
    all.insert(all.end(), more.begin(), more.end());
  };
  add("steady", {.delay_min_ns = 1000, .delay_max_ns = 1000});
  add("jittery", {.delay_min_ns = 0, .delay_max_ns = 50'000});
  add("torn", {.tear = 1});
  add("reordered", {.delay_max_ns = 100'000, .reorder = 0.5, .tear = 0.5});
  return all;
}

std::vector<Backend> hostile() {
  std::vector<Backend> all = reliable();
  const std::vector<Backend> lossy = seeds("lossy", {.loss = 0.3, .reorder = 0.2, .tear = 0.5});
  const std::vector<Backend> failing = seeds("failing", {.loss = 0.05, .tear = 0.5, .fail = 0.02});
  all.insert(all.end(), lossy.begin(), lossy.end());
  all.insert(all.end(), failing.begin(), failing.end());
  return all;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Sim, FabricContract, testing::ValuesIn(reliable()), backend_name);
INSTANTIATE_TEST_SUITE_P(Sim, ClosingContract, testing::ValuesIn(hostile()), backend_name);
INSTANTIATE_TEST_SUITE_P(Sim, ProtectionContract, testing::ValuesIn(reliable()), backend_name);
INSTANTIATE_TEST_SUITE_P(Sim, PushContract, testing::ValuesIn(reliable()), backend_name);

}  // namespace farpage::contract
