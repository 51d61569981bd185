#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "chaos/processes/destination.h"
#include "client/gpu/gpu_runners.h"
#include "client/runner/ticket.h"
#include "client/runner/write_runner.h"
#include "sim/page_frames.h"
#include "tier/client.h"
#include "transport/cuda/gpu_context.h"
#include "transport/cuda/memory/pinned_memory.h"

namespace farpage::processes {

// Frames in memory of the first GPU, and a client's fetches into them, as a program's that opens
// client/farpage.h. One thread.
class GpuFrames final : public DeviceFrames {
 public:
  // `failed`: told what the driver has refused. `client` outlives it. kNotFound, kUnavailable: no
  // driver, or no GPU.
  static Result<std::unique_ptr<GpuFrames>> make(Client& client, size_t frames, uint64_t page_bytes,
                                                 Destination destination,
                                                 std::function<void(std::string)> failed);
  // Waits for fetches that are not released.
  ~GpuFrames() override;

  Slice slice(size_t frame, uint64_t bytes) const {
    return region_.slice(frame * page_bytes_, bytes);
  }
  // Before a fetch into frames that were filled: no work on the GPU uses them then.
  void await_fills();
  Ticket fetch(std::span<const PageRequest> requests, uint64_t deadline_ns);

  void fill(size_t frame, std::byte value) override;
  void read(size_t frame, std::span<std::byte> bytes) override;

 private:
  GpuFrames(Client& client, std::shared_ptr<const cuda::GpuContext> context,
            cuda::PinnedMemory bytes, size_t frames, uint64_t page_bytes, Destination destination,
            std::function<void(std::string)> failed);
  Result<void> start();
  void expect(int result, const char* what);
  // Where a frame's pieces lie: those of one number of all frames side by side.
  uint64_t address(size_t piece, size_t frame) const {
    return address_ + (piece * frames_ + frame) * piece_bytes_;
  }

  const std::shared_ptr<const cuda::GpuContext> context_;
  const cuda::Driver& driver_;
  const size_t frames_;
  const uint64_t page_bytes_;
  const size_t pieces_;  // of a frame
  const uint64_t piece_bytes_;
  std::function<void(std::string)> failed_;
  cuda::PinnedMemory bytes_;  // that were read
  cuda::Stream stream_ = nullptr;
  uint64_t address_ = 0;
  WriteRunner writes_;
  std::unique_ptr<GpuRunners> runners_;
  Region region_;
};

}  // namespace farpage::processes
