#include "tests/transport/verbs/verbs_backends.h"

#include "transport/verbs/verbs_fabric.h"

namespace farpage::contract {
namespace {

class VerbsHarness : public Harness {
 public:
  VerbsHarness(std::vector<std::string> passive, std::vector<std::string> active)
      : passive_(verbs::make_verbs_fabric({.devices = std::move(passive)}).value()),
        active_(verbs::make_verbs_fabric({.devices = std::move(active)}).value()) {}

  Fabric& passive() override { return *passive_; }
  Fabric& active() override { return *active_; }
  const Clock& clock() const override { return boottime_clock(); }
  // A round trip on each way behind what is on it.
  void settle() override {
    for (int round = 0; round < 4; ++round) make_round_trip();
  }

 private:
  std::unique_ptr<Fabric> passive_;
  std::unique_ptr<Fabric> active_;
};

Backend verbs_backend(const std::string& name, const std::vector<std::string>& passive,
                      const std::vector<std::string>& active) {
  return {name, [=] { return std::make_unique<VerbsHarness>(passive, active); }};
}

}  // namespace

Backend one_device() {
  return verbs_backend("one_device", {"rxe0"}, {"rxe0"});
}
Backend over_the_network() {
  return verbs_backend("over_the_network", {"rxe2"}, {"rxe0"});
}
Backend two_devices() {
  return verbs_backend("two_devices", {"rxe0", "rxe1"}, {"rxe0", "rxe1"});
}
Backend two_ways() {
  return verbs_backend("two_ways", {"rxe2", "rxe1"}, {"rxe0", "rxe1"});
}

}  // namespace farpage::contract
