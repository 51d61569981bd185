#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/mapping.h"
#include "net/descriptor_set.h"
#include "net/stream/stream.h"
#include "transport/fabric.h"
#include "transport/local_registrations.h"
#include "transport/operation_check.h"
#include "transport/tcp/wire.h"

namespace farpage::tcp {

// Of both buckets of 1,024 keys, which a lane asks for in one round trip, beside its pages; rounded
// up. A channel has memory for as many of them as were ever in flight.
inline constexpr uint32_t kMaxInFlight = 4096;

// The end that posts. It drives its socket from the caller's thread, so that nothing is ever
// written behind the caller's back and close() ends everything at once. Replies come in the order
// of the requests, and are read straight to their landing places, many with one system call.
class TcpInitiator final : public Initiator {
 public:
  static Result<std::unique_ptr<TcpInitiator>> make(
      std::unique_ptr<Stream> stream, std::shared_ptr<const LocalRegistrations> local);
  ~TcpInitiator() override { close(); }

  Result<RemoteRegion> import_region(RegionExport region, const RegionUse& use) override;
  size_t room() const override { return kMaxInFlight - (written_ - polled_); }
  Operation& next() override;
  Status post() override;
  size_t poll(std::span<Completion> completions) override;
  void wait(uint64_t deadline_ns) override;
  int descriptor() const override { return readiness_.fd(); }
  uint64_t arm() override;
  uint64_t spin_ns() const override;
  void close() override;

 private:
  struct Imported {
    RegionKey key;
    RegionUse use;
  };
  struct Flight {
    Operation operation;
    Request request;
    Reply reply;
    bool refused = false;  // nothing of it is sent, and no reply comes

    uint64_t bytes_out() const;  // on the wire, with its request
    uint64_t bytes_in() const;   // ... with its reply
  };
  enum class State : uint8_t { kOpen, kBroken, kClosed };

  TcpInitiator(std::unique_ptr<Stream> stream, std::shared_ptr<const LocalRegistrations> local,
               DescriptorSet readiness, Mapping flights);
  Flight& flight(uint64_t number) const {
    return reinterpret_cast<Flight*>(flights_.data())[places_[number % kMaxInFlight]];
  }
  void describe(Flight& flight);
  void send();
  void receive(size_t most);
  void count_received();
  bool is_valid(const Flight& flight) const;
  bool expects_soon() const;
  void break_off(int32_t vendor);
  void end_stream();

  std::unique_ptr<Stream> stream_;
  DescriptorSet readiness_;  // of the stream, for
  short awaited_ = POLLIN;   // these events
  std::shared_ptr<const LocalRegistrations> local_;
  std::vector<Imported> imported_;
  Mapping flights_;  // kMaxInFlight of them. The place that was free last is taken first, so that
                     // few in flight touch little memory
  std::vector<uint16_t> free_;    // places of flights_
  std::vector<uint16_t> places_;  // by number, in use as rings of ascending numbers:
  uint64_t polled_ = 0;           // completions given to the caller
  uint64_t ended_ = 0;            // replied to, whole
  uint64_t sending_ = 0;          // the first that has not been sent whole
  uint64_t posted_ = 0;
  uint64_t written_ = 0;         // behind the last one that the caller writes
  uint32_t last_sequence_ = 0;   // of the requests, which the node counts as well
  uint64_t sent_bytes_ = 0;      // of flight sending_
  uint64_t received_bytes_ = 0;  // of flight ended_
  Refusals refusals_;
  State state_ = State::kOpen;
  int32_t vendor_ = 0;  // why it is broken
};

}  // namespace farpage::tcp
