#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "client/gpu/gpu_checkers.h"
#include "client/gpu/gpu_options.h"
#include "tier/client.h"
#include "transport/cuda/memory/landing_memory.h"

namespace farpage {

// Memory of a GPU where a network card lands the pages of fetches. The destructor ends the
// registration: no lane reads there any more.
class GpuLanding {
 public:
  // As `gpu.landing` says. Null: pages land in the host's memory, and a warning says why if the
  // client's backend could do otherwise. kUnavailable, with a sentence: the one way that was asked
  // for is not there.
  static Result<std::unique_ptr<GpuLanding>> open(
      Client& client, const std::shared_ptr<const cuda::GpuContext>& context,
      const GpuOptions& options, uint64_t bytes);

  Slice slice(uint64_t offset, uint64_t bytes) const { return region_.slice(offset, bytes); }
  LandingPlace place() const { return place_; }
  // For the one lane that lands pages there, and its checker of that memory, for as long as the
  // lane lives.
  CheckerFactory& checkers() { return checkers_; }
  cuda::LandedChecker& checker() { return *checker_; }

 private:
  GpuLanding(int device, std::unique_ptr<cuda::LandedChecker> checker, cuda::LandingMemory memory,
             Region region, LandingPlace place)
      : checker_(checker.get()),
        checkers_(device, std::move(checker)),
        memory_(std::move(memory)),
        region_(std::move(region)),
        place_(place) {}
  static Result<std::unique_ptr<GpuLanding>> open_by(
      cuda::LandingWay way, Client& client, const std::shared_ptr<const cuda::GpuContext>& context,
      uint64_t bytes);

  cuda::LandedChecker* const checker_;
  GpuCheckers checkers_;
  cuda::LandingMemory memory_;
  Region region_;  // goes before it
  LandingPlace place_;
};

}  // namespace farpage
