#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/network/network.h"
#include "transport/fabric.h"

namespace farpage::sim {

// The end of a simulated connection that owns the memory. Its initiator's operations look here
// whether it still serves them, and bring it their immediates.
class SimTarget final : public Target {
 public:
  SimTarget(std::shared_ptr<Network> network, const Host& host);
  ~SimTarget() override;

  uint32_t id() const { return id_; }
  const Host& host() const { return host_; }
  bool serves() const { return !closed_; }
  void arrive(uint32_t immediate) { arrived_.push_back(immediate); }

  Result<Region> allocate_writable(uint64_t bytes) override;
  size_t poll(std::span<uint32_t> immediates) override;
  void wait(uint64_t deadline_ns) override;
  void close() override { closed_ = true; }

 private:
  const std::shared_ptr<Network> network_;
  const Host& host_;
  const uint32_t id_;
  bool closed_ = false;
  std::vector<uint32_t> arrived_;
};

}  // namespace farpage::sim
