#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "net/descriptor_set.h"
#include "transport/fabric.h"
#include "transport/operation_check.h"
#include "transport/verbs/dialer.h"
#include "transport/verbs/fixed_queue.h"
#include "transport/verbs/registration.h"
#include "transport/verbs/send_queue.h"
#include "transport/verbs/wire.h"

namespace farpage::verbs {

// Twice as many as a lane has under way at most.
inline constexpr uint32_t kMaxInFlight = 512;

// The parts of an initiator of an offered channel.
struct InitiatorEnd {
  std::shared_ptr<Dialer> dialer;
  std::shared_ptr<LocalKeys> keys;
  std::shared_ptr<Arrivals> arrivals;
  std::vector<Endpoint> endpoints;             // one a path
  std::array<bool, kMaxDevices> dialled = {};  // those that are, so far
  ConnectWire introduction;                    // of every path, but for its number
  bool one_path = false;  // whichever came first; writes keep their order on it
  uint64_t spin_ns = 0;
  DescriptorSet readiness;  // empty
};

// The end that posts: READs and WRITEs over one queue pair a path. Reads are spread over the paths
// that work; what a broken path leaves undone goes over another one, and the path is dialled anew.
// The channel is broken when no path is left.
class VerbsInitiator final : public Initiator {
 public:
  explicit VerbsInitiator(InitiatorEnd end);
  ~VerbsInitiator() override { close(); }

  Result<RemoteRegion> import_region(RegionExport region, const RegionUse& use) override;
  size_t room() const override { return free_.size(); }
  Operation& next() override;
  Status post() override;
  size_t poll(std::span<Completion> completions) override;
  void wait(uint64_t deadline_ns) override;
  int descriptor() const override { return end_.readiness.fd(); }
  uint64_t arm() override;
  uint64_t spin_ns() const override;
  void close() override;

 private:
  struct Imported {
    RegionWire region;
    RegionUse use;
  };
  // The outcome of an operation.
  struct Course {
    uint64_t sent_bytes = 0;
    uint32_t works = 0;  // work requests that have not ended
    bool sent = false;   // all of its work requests have gone out
    bool refused = false;
    uint8_t path = 0;
    uint8_t moves = 0;                      // to another path
    ibv_wc_status status = IBV_WC_SUCCESS;  // of the first that failed
    Outcome outcome = Outcome::kOk;
  };
  struct Flight : Course {
    Operation operation;

    void begin(uint8_t moves) {
      static_cast<Course&>(*this) = {};
      this->moves = moves;
    }
  };
  struct Path {
    std::unique_ptr<SendQueue> queue;
    bool dialling = false;
    bool proven = false;  // pages have come over it
  };
  enum class State : uint8_t { kOpen, kBroken, kClosed };

  void send();
  std::optional<size_t> next_path() const;
  void fill(size_t path, size_t most);
  void add_part(SendQueue& queue, uint16_t number);
  void add_merged(SendQueue& queue);
  ibv_send_wr request_of(const Flight& flight, size_t path) const;

  void harvest();
  void look_at_paths();
  void leave_silent_paths();
  void take_arrived(size_t number);
  void dial_again();
  void broke(size_t number, uint64_t now_ns);
  void drop(std::unique_ptr<SendQueue>& queue);
  void take_events();
  void look_for_events();
  void work_ended(const SendQueue::Work& work, ibv_wc_status status);
  void operation_ended(uint16_t number);
  void end(uint16_t number, Outcome outcome);
  void end_unsent();
  bool works(const Path& path) const { return path.queue != nullptr && !path.queue->broken(); }
  size_t working_paths() const;
  size_t in_flight() const { return kMaxInFlight - free_.size(); }

  InitiatorEnd end_;
  std::vector<Imported> imported_;
  std::array<Path, kMaxDevices> paths_;
  std::vector<Flight> flights_;
  FixedQueue<uint16_t, kMaxInFlight> free_;
  FixedQueue<uint16_t, kMaxInFlight> written_;
  FixedQueue<uint16_t, kMaxInFlight> unsent_;  // the first may have been sent in part
  FixedQueue<uint16_t, kMaxInFlight> ended_;
  Refusals refusals_;
  State state_ = State::kOpen;
  size_t next_ = 0;                  // the path whose turn it is among equals
  uint64_t look_for_events_ns_ = 0;  // not before
};

}  // namespace farpage::verbs
