#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/network/network.h"
#include "transport/fabric.h"
#include "transport/operation_check.h"

namespace farpage::sim {

// The end of a simulated reliable connection that moves bytes. An operation's whole course is drawn
// when it is posted and then runs as events of the world: pieces are taken, pieces land, the peer
// sees the immediate, the completion becomes pollable. Rights and bounds are checked where the
// bytes are, when they are touched.
//
// A failed operation breaks the channel, as on a reliable queue pair: all behind it end as aborted,
// and what is posted later does, too.
class SimInitiator final : public Initiator {
 public:
  static constexpr uint32_t kMaxInFlight = 1024;

  SimInitiator(std::shared_ptr<Network> network, const Host& host, ChannelPurpose purpose,
               const SimTarget& target);
  ~SimInitiator() override;

  Result<RemoteRegion> import_region(RegionExport region, const RegionUse& use) override;
  size_t room() const override;
  Operation& next() override;
  Status post() override;
  size_t poll(std::span<Completion> completions) override;
  void wait(uint64_t deadline_ns) override;
  void close() override;

 private:
  static constexpr uint32_t kMaxPieces = 4;

  enum class Step : uint8_t { kTake, kLand, kImmediate, kComplete, kFlush };

  // The draws for an operation, and its progress.
  struct Course {
    uint64_t remote_key = 0;
    uint64_t sequence = 0;
    std::array<uint64_t, kMaxPieces + 1> cuts{};
    uint32_t pieces = 1;
    int32_t vendor = 0;    // why it failed
    bool active = false;   // its steps still have an effect
    bool stuck = false;    // nothing of it happens any more, and it never completes
    bool silent = false;   // it happens, but its completion never comes
    bool refused = false;  // by the option `fail`
    bool overtakes = false;
    bool complete = false;  // waits for its turn
  };
  struct Flight : Course {
    Operation operation;
    std::vector<std::byte> bytes;  // between the two ends; keeps its memory for the next operation
  };

  struct Import {
    uint64_t key;
    RegionUse use;
  };

  bool may_begin(const Operation& operation) const;
  bool owns(const Slice& slice) const;
  void start(uint32_t slot);
  void cut(Flight& flight);
  void schedule(uint64_t time_ns, Step step, uint32_t slot, uint32_t piece);
  uint64_t delay();

  void run(Step step, uint32_t slot, uint32_t piece);
  void take(Flight& flight, uint32_t piece);
  void land(Flight& flight, uint32_t piece);
  void send_immediate(const Flight& flight);
  std::byte* remote_bytes(Flight& flight);
  bool local_ready(Flight& flight);
  void refuse(Flight& flight, int32_t vendor);
  void deliver();
  void end(Flight& flight, Outcome outcome);
  void abort_all();

  const std::shared_ptr<Network> network_;
  const Host& host_;
  const ChannelPurpose purpose_;
  const uint32_t id_;
  const uint32_t target_;
  const Host& target_host_;
  bool closed_ = false;
  bool broken_ = false;
  Refusals refusals_;

  std::vector<Import> imports_;
  std::vector<Flight> flights_;  // grows to the most that were ever in flight
  std::vector<uint32_t> free_flights_;
  std::vector<uint32_t> written_;  // flights that the caller writes
  std::vector<uint32_t> order_;    // flights in order of posting
  std::vector<Completion> ended_;
  uint64_t next_sequence_ = 0;
  uint64_t refused_sequence_ = kNever;  // nothing behind it has an effect
  uint64_t writes_landed_ns_ = 0;       // when all writes so far will have; kNever: they will not
  uint64_t immediates_seen_ns_ = 0;
};

}  // namespace farpage::sim
