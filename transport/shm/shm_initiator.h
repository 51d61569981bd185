#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/mapping.h"
#include "transport/fabric.h"
#include "transport/local_registrations.h"
#include "transport/mapped_peer.h"
#include "transport/shm/shared_channel.h"

namespace farpage::shm {

inline constexpr uint32_t kMaxInFlight = 1024;

// post() only queues; poll() copies, in the caller's thread, so that nothing is ever written behind
// the caller's back and close() ends everything at once.
class ShmInitiator final : public Initiator, public DirectMemory, public MappedPeer {
 public:
  ShmInitiator(Mapping shared, std::shared_ptr<const LocalRegistrations> local);
  ~ShmInitiator() override { close(); }

  Result<RemoteRegion> import_region(RegionExport region, const RegionUse& use) override;
  size_t room() const override { return kMaxInFlight - (written_ - head_); }
  Operation& next() override;
  Status post() override;
  size_t poll(std::span<Completion> completions) override;
  void wait(uint64_t deadline_ns) override;
  void close() override;

  std::span<const std::byte> view(const RemoteRegion& region) const override;
  std::shared_ptr<const Mapping> mapping_of(const RemoteRegion& region) const override;

 private:
  struct Imported {
    std::byte* data;  // of the mapping
    std::shared_ptr<const Mapping> mapping;
    RegionUse use;
  };
  struct Pending {
    Operation operation;
    bool moved = false;  // its bytes are there; its immediate waits for room in the ring
    uint32_t crc = 0;
  };

  bool target_closed() const;
  bool registered(const Imported& imported) const;
  Pending& pending(uint32_t at) { return ring_[at % kMaxInFlight]; }
  uint64_t deadline_ns(uint32_t at) { return pending(at).operation.deadline_ns; }
  void sort_in(uint32_t first, uint32_t behind);
  void reverse(uint32_t from, uint32_t to);
  bool execute(Pending& next, Completion& completion);
  bool carry_out(Pending& next, Completion& completion);
  Outcome move_bytes(const Operation& operation, const Imported& imported, uint32_t& crc);
  void prefetch_next() const;

  const SharedChannel shared_;
  std::shared_ptr<const LocalRegistrations> local_;
  RingProducer immediates_;
  Outcome last_ = Outcome::kOk;  // of those that have ended
  bool closed_ = false;
  std::vector<Imported> imported_;
  // kMaxInFlight entries; [head_, tail_) are posted, [tail_, written_) are being written. Reads
  // that are posted stand in the order of their deadlines, as far as no write is between them:
  // nothing passes a write.
  std::vector<Pending> ring_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  uint32_t written_ = 0;
  uint64_t bytes_since_clock_ = 0;
  uint64_t burst_bytes_ = 0;   // moved since nothing was queued
  bool ring_is_full_ = false;  // the front waits for room for its immediate
};

}  // namespace farpage::shm
