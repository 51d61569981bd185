#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "sim/fault/landed_pages.h"
#include "sim/fault/shared_plan.h"
#include "transport/forwarding_initiator.h"
#include "transport/mapped_peer.h"

namespace farpage::fault {

// Gives its operations to another initiator: some of them changed, some not at all. It changes what
// comes back in the same way, or keeps it for a while.
class FaultInitiator final : public ForwardingInitiator, public MappedPeer {
 public:
  // `sources`: memory for what a flipped write takes instead, registered with the inner fabric.
  FaultInitiator(std::unique_ptr<Initiator> inner, std::shared_ptr<SharedPlan> shared,
                 uint64_t seed, std::vector<std::byte> source_memory, Region sources);
  ~FaultInitiator() override { end_inner(); }

  size_t room() const override { return inner().room() - written_.size(); }
  Operation& next() override { return written_.emplace_back(); }
  Status post() override;
  size_t poll(std::span<Completion> completions) override;
  void wait(uint64_t deadline_ns) override;
  uint64_t arm() override;
  void close() override;
  // If the other one's is. Nothing goes wrong there but what goes wrong with operations.
  std::shared_ptr<const Mapping> mapping_of(const RemoteRegion& region) const override {
    const auto* const peer = dynamic_cast<const MappedPeer*>(&inner());
    return peer != nullptr ? peer->mapping_of(region) : nullptr;
  }

 private:
  // An operation under way: what was asked for, and what is to go wrong with it.
  struct Flight {
    Operation asked;
    std::optional<FaultKind> fault;
  };
  struct Held {
    Completion completion;
    uint64_t release_ns = 0;
  };

  std::optional<FaultKind> draw(const FaultPlan& plan);
  void spare(std::optional<FaultKind>& fault);
  void begin(const Operation& operation, const FaultPlan& plan);
  bool shorten(Operation& operation);
  void make_up(const Operation& operation, FaultKind fault, Outcome outcome);
  bool flip_source(Operation& operation);
  bool misdirect(Operation& operation);
  void landed(Completion completion);
  bool damage(const Operation& asked, FaultKind fault);
  void flip(std::byte* data, uint64_t bytes);
  void hold(const Completion& completion, std::optional<FaultKind> fault, uint64_t bytes);
  uint64_t next_release_ns() const;
  uint64_t due_ns() const;

  const std::shared_ptr<SharedPlan> shared_;
  Random random_;
  std::vector<std::byte> source_memory_;
  Region sources_;
  uint64_t source_in_use_ = kNever;  // the tag of the write that takes it
  std::vector<Operation> written_;   // that the caller writes
  std::unordered_map<uint64_t, Flight> flights_;
  uint64_t last_tag_ = 0;
  std::deque<Held> held_;
  uint64_t last_release_ns_ = 0;
  LandedPages pages_;
  bool closed_ = false;
};

}  // namespace farpage::fault
