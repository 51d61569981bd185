#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "base/memory/mapping.h"
#include "transport/fabric.h"
#include "transport/shm/shared_channel.h"

namespace farpage::shm {

// The initiator's thread moves the bytes; this end takes the immediates out of the shared ring.
class ShmTarget final : public Target {
 public:
  explicit ShmTarget(Mapping shared)
      : shared_(std::move(shared)), arrived_(shared_.memory().immediates) {}
  ~ShmTarget() override { close(); }

  Result<Region> allocate_writable(uint64_t bytes) override;
  size_t poll(std::span<uint32_t> immediates) override;
  void wait(uint64_t deadline_ns) override { nap_until(deadline_ns); }
  void close() override;

 private:
  const SharedChannel shared_;
  RingConsumer arrived_;
};

}  // namespace farpage::shm
