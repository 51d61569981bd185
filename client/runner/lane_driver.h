#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/runner/fetch_runner.h"
#include "control/status/status.h"
#include "tier/client.h"

namespace farpage {

// Fetches over a lane, and answers which pages are there.
class LaneDriver {
 public:
  using Operation = Fetch;

  static Result<LaneDriver> open(Client& client);

  std::optional<Fetch> begin(Submission& submission, const std::function<void()>& give_a_turn);
  void finish(Submission&) {}
  bool progress() { return lane_.progress(); }
  void wait(uint64_t until_ns) { lane_.wait(until_ns); }
  void wait_idle(const SubmissionPool& pool, uint32_t rings) { pool.sleep(rings); }
  void interrupt() { lane_.interrupt(); }

  // Of the lane's fetches, as of a moment ago; any thread.
  VerdictCounts verdicts() const { return lane_.verdicts(); }

 private:
  LaneDriver(Lane lane, const Clock& clock) : lane_(std::move(lane)), clock_(&clock) {}
  bool answer_from_index(Submission& submission, const std::function<void()>& give_a_turn);

  Lane lane_;
  const Clock* clock_;
  std::vector<uint8_t> shown_;  // by an index, of the keys in hand
};

using LaneRunner = FetchRunner<LaneDriver>;

}  // namespace farpage
