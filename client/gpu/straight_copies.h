#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "client/gpu/last_hop.h"
#include "client/gpu/pool_registrar.h"
#include "tier/fetch/lane.h"
#include "tier/fetch/page_copier.h"
#include "transport/cuda/copies/copy_queue.h"

namespace farpage {

// Copies payloads to a GPU straight from the pools of nodes on this host, which are registered with
// CUDA. The calling thread checks a payload where it lies; those that are good are copied in
// batches, while it checks the next. The queue's checks look at them again where they have come.
// Made on any thread.
class StraightCopies final : public PageCopier {
 public:
  static constexpr uint32_t kBatches = Lane::kPlaces;  // each has a page, at least

  // It has the last kBatches of the queue, from `first_batch` on. All of these outlive it.
  StraightCopies(cuda::CopyQueue& queue, uint32_t first_batch, const Clock& clock,
                 LastHop& last_hop);

  std::shared_ptr<CopySource> open(std::shared_ptr<const Mapping> pool) override;
  void begin(const PageCopy& copy) override;
  size_t poll(std::span<CheckEnd> ends) override;

  // Whether the device checks copies that begin from now on, if it can.
  void check_copies(bool are_checked) { are_checked_ = are_checked; }

  bool are_under_way() const { return !started_.empty(); }
  uint64_t started_ns() const { return started_ns_; }  // when copies were started last

 private:
  struct Started {
    uint32_t batch = 0;
    bool is_checked = false;  // by the queue
    PageCopy copy;
  };

  void start();
  bool can_check(const PageCopy& copy) const;
  void end(const PageCopy& copy, CheckEnd::Outcome outcome);
  void take_ended();

  cuda::CopyQueue& queue_;
  const uint32_t first_batch_;
  const Clock& clock_;
  LastHop& last_hop_;
  bool are_checked_ = true;
  PoolRegistrar registrar_;               // pools end after those who hold one
  std::vector<PageCopy> waiting_;         // to be checked
  std::vector<Started> started_;          // batch by batch
  std::vector<CheckEnd> ends_;            // to be polled
  std::vector<uint32_t> free_;            // batches
  std::vector<cuda::Copy> copies_;        // that are about to be started
  std::vector<cuda::CopiedPage> checks_;  // of them
  uint64_t started_ns_ = 0;
};

}  // namespace farpage
