#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "integrity/checker.h"
#include "transport/cuda/copies/copy_queue.h"
#include "transport/cuda/memory/landing_memory.h"
#include "transport/cuda/memory/pinned_memory.h"

namespace farpage::cuda {

// Checks pages where a NIC has written them to a device's memory: the device itself counts their
// CRCs, in batches. What makes the NIC's writes visible comes before each (protocol rule 20).
//
// Payloads begin at multiples of 4 bytes. A driver that refuses a check, or a context that has
// ended, ends checks as kFailed. One thread, which has the device's context from the first begin()
// on; made and destroyed on any.
class LandedChecker final : public Checker {
 public:
  // kUnavailable, kExhausted, with a sentence.
  static Result<std::unique_ptr<LandedChecker>> make(
      const std::shared_ptr<const GpuContext>& context);
  ~LandedChecker() override;

  // Has the device check 64 bytes at this address, which it fills, and waits for that: what is
  // loaded late is then, and what is refused is known. Before the first begin().
  Result<void> try_at(uint64_t address);

  // While it is off no check begins: those that are given wait.
  void allow(bool may_begin) { may_begin_ = may_begin; }
  // Batches so far of whose pages nothing is known, as the driver has refused something.
  uint64_t refusals() const { return refusals_; }
  // The context has ended.
  bool is_broken() const { return queue_.is_broken(); }
  const std::string& why() const { return queue_.why(); }

  size_t begin(std::span<const PayloadCheck> checks) override;
  size_t poll(std::span<CheckEnd> ends) override;

 private:
  static constexpr uint32_t kBatches = 8;
  static constexpr uint32_t kPagesOfBatch = 64;

  enum class State : uint8_t { kFree, kUnderWay, kGood, kFailed };
  struct Batch {
    State state = State::kFree;  // kGood: the device has counted
    std::array<PayloadCheck, kPagesOfBatch> checks;
    uint32_t count = 0;
    uint32_t told = 0;  // ends
  };

  LandedChecker(PinnedMemory zero, CopyQueue queue, WriteFlush flush);
  void start(uint32_t number, std::span<const PayloadCheck> checks);
  bool flush_writes();
  void look_at(uint32_t number);
  void lose(Batch& batch);
  CheckEnd end_of(uint32_t number, uint32_t page) const;

  PinnedMemory zero_;  // what waits in a stream look at: a word that stays 0
  CopyQueue queue_;    // goes before it
  const WriteFlush flush_;
  bool may_begin_ = true;
  uint64_t refusals_ = 0;
  std::array<Batch, kBatches> batches_;
};

}  // namespace farpage::cuda
