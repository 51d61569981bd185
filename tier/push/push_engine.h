#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tier/link/node_session.h"
#include "tier/push/landing_path.h"
#include "tier/push/push.h"
#include "tier/stats/lane_counters.h"

namespace farpage {

// The pages of a Push, and their places. Used again by later ones.
struct PushState {
  // The node's answer, left by the runtime's thread.
  struct Answer {
    std::optional<Code> refused;
    std::vector<Code> codes;
    std::atomic<bool> here{false};
  };

  std::span<const PushedPage> requests;
  std::span<PageVerdict> verdicts;
  uint64_t deadline_ns = 0;
  uint64_t started_ns = 0;
  size_t pending = 0;
  bool in_use = false;
  CompletionCounter counter;
  std::vector<std::optional<PageLease>> places;  // one a request
  std::vector<uint32_t> payload_bytes;           // of each that is ready, as it was judged

  // The request that is on its way, if `sent`.
  bool sent = false;
  uint64_t asked_ns = 0;        // Tp
  uint32_t immediate = 0;       // of the first group
  uint32_t arrived = 0;         // groups that have been looked at: the first ones
  std::vector<uint32_t> order;  // the requests, as they were asked for
  std::shared_ptr<Answer> answer;
  bool answered = false;  // and what it says is done
};

// A push lane: places, requests, arrivals, verdicts.
//
//   waiting ──places and a path──► sent ──groups arrive, deadline, L──► done
//      ▲                             │
//      └────── the landing ends ─────┘
//
// One thread.
class PushEngine {
 public:
  static Result<std::unique_ptr<PushEngine>> create(const std::shared_ptr<NodeSession>& link,
                                                    const PushOptions& options);
  ~PushEngine();

  PushState* start(std::span<const PushedPage> requests, std::span<PageVerdict> verdicts,
                   uint64_t deadline_ns);
  void recycle(PushState* push);
  void wait_done(PushState* push);
  void progress();
  void wait(uint64_t until_ns);
  PushStats stats() const;

 private:
  PushEngine(std::shared_ptr<NodeSession> link, const PushOptions& options);
  Result<void> open_path();

  bool turn();
  bool send_waiting();
  bool send(PushState& push);
  bool take_places(PushState& push, uint32_t groups);
  void take_arrived(PushState& push);
  void take_answer(PushState& push);
  void land(PushState& push, size_t at);
  void sweep();
  void drop(PushState& push, Reason reason);
  void settle(PushState& push, uint32_t page, Reason reason, const PageHeader& judged = {});
  void give_back(PushState& push, size_t at);
  void end_landing();
  uint64_t next_event_ns() const;

  std::shared_ptr<NodeSession> link_;
  const Clock& clock_;
  const PushOptions options_;
  const bool verify_;
  LandingPath path_;
  std::vector<std::unique_ptr<PushState>> pushes_;
  std::vector<PushState*> active_;
  LaneCounters counters_;
  uint64_t now_ns_ = 0;
};

}  // namespace farpage
