#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/fabric.h"
#include "transport/operation_check.h"
#include "transport/ucx/paths.h"
#include "transport/ucx/regions.h"
#include "transport/ucx/wire.h"
#include "transport/ucx/worker.h"

namespace farpage::ucx {

// Twice as many as a lane has under way at most.
inline constexpr uint32_t kMaxInFlight = 512;

// The end that posts: a UCX worker of its own with one endpoint, driven by the caller's thread
// alone. Completions are told in the order of the posts. Writes complete, and their immediates go
// out, once a flush has shown that everything posted before is at the peer.
class UcxInitiator final : public Initiator, public LocalUser {
 public:
  static Result<std::unique_ptr<Initiator>> connect(const std::shared_ptr<LocalMemory>& local,
                                                    std::shared_ptr<PathBook> paths,
                                                    const Offer& offer, uint64_t deadline_ns);
  ~UcxInitiator() override;

  Result<RemoteRegion> import_region(RegionExport region, const RegionUse& use) override;
  size_t room() const override { return kMaxInFlight - (written_ - polled_); }
  Operation& next() override;
  Status post() override;
  size_t poll(std::span<Completion> completions) override;
  void wait(uint64_t deadline_ns) override;
  int descriptor() const override;
  uint64_t arm() override;
  uint64_t spin_ns() const override;
  void close() override;

  bool uses(uint64_t local_key) const override;
  void break_off() override;

 private:
  struct RkeyDeleter {
    void operator()(ucp_rkey* key) const { ucp_rkey_destroy(key); }
  };
  struct Imported {
    std::unique_ptr<ucp_rkey, RkeyDeleter> key;
    uint64_t address;
    RegionUse use;
    const uint32_t* registered;  // in the peer's memory, where that is attached; else nullptr

    bool is_registered() const;
  };
  // One request of UCX's, in memory of this channel.
  struct Request {
    UcxInitiator* channel = nullptr;
    void* memory = nullptr;
    bool is_under_way = false;
    ucs_status_t status = UCS_OK;
    std::atomic<uint64_t> local_key{0};  // whose memory it moves bytes to or from now
  };
  struct Flight {
    Operation operation;
    Outcome fate = Outcome::kOk;  // kOk: it was started; otherwise how it has ended
    std::array<Request, 2> transfers;
  };
  enum class State : uint8_t { kOpen, kBroken, kClosed };

  UcxInitiator(std::shared_ptr<LocalMemory> local, std::shared_ptr<PathBook> paths,
               std::unique_ptr<Worker> worker, size_t request_bytes);
  Result<void> take_up(const Offer& offer, uint64_t deadline_ns);
  Result<void> check_path();
  static tl::unexpected<Error> refuse_emulated(const std::string& path);

  Flight& flight(uint64_t number) { return flights_[number % kMaxInFlight]; }
  void start(Flight& flight);
  Outcome fate_of(const Operation& operation);
  ucp_request_param_t describe(Request& request) const;
  void note(Request& request, ucs_status_ptr_t started);
  void end(Request& request, ucs_status_t status);
  void advance_writes();
  void start_flush();
  void send_immediate(const Operation& operation);
  bool moved(const Flight& flight) const;
  bool has_ended(uint64_t number);
  Completion completion_of(uint64_t number);
  bool has_news() { return polled_ != posted_ && has_ended(polled_); }
  bool expects_soon() const;
  void end_operations();

  static void on_request(void* request, ucs_status_t status, void* user_data);
  static void on_error(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_welcome(void* argument, const void* header, size_t header_bytes,
                                 void* data, size_t data_bytes, const ucp_am_recv_param_t* param);

  std::shared_ptr<LocalMemory> local_;
  std::shared_ptr<PathBook> paths_;
  std::unique_ptr<Worker> worker_;
  ucp_ep_h endpoint_ = nullptr;
  std::vector<Imported> imported_;
  ChannelId id_ = {};
  Welcome welcome_ = {};
  bool is_welcomed_ = false;

  size_t request_stride_;
  std::unique_ptr<std::byte[]> request_memory_;
  std::vector<Flight> flights_;  // kMaxInFlight of them, in use as a ring of ascending numbers:
  uint64_t polled_ = 0;          // completions given to the caller
  uint64_t signalled_ = 0;       // writes before this have ended, with their immediates
  uint64_t flushed_ = 0;         // writes before this are at the peer
  uint64_t flushing_ = 0;        // and those before this, once the flush under way has ended
  uint64_t last_write_ = 0;      // behind it
  uint64_t posted_ = 0;
  uint64_t written_ = 0;  // behind the last one that the caller writes
  Request flush_;
  Request message_;
  Immediate immediate_ = {};  // what message_ sends
  uint64_t under_way_ = 0;    // requests
  Refusals refusals_;
  State state_ = State::kOpen;
  ucs_status_t failure_ = UCS_OK;  // why it is broken
  bool told_failure_ = false;
};

}  // namespace farpage::ucx
