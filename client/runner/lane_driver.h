#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "client/runner/fetch_runner.h"
#include "control/status/status.h"
#include "tier/client.h"

namespace farpage {

// Fetches over a lane, and answers which pages are there.
class LaneDriver {
 public:
  // A question whether pages are there goes to the indexes, mapped or read, and with the keys that
  // these leave unknown becomes a fetch without destinations, which asks any node.
  struct Operation {
    Fetch fetch;
    size_t looked_up = 0;  // of the keys, in indexes that are mapped here
    IndexQuestion question;
    uint64_t asked_ns = 0;
    bool asks = false;  // the question; otherwise it is the fetch that is under way

    bool done() const { return !asks && fetch.done(); }
    bool released() const { return fetch.released(); }
  };

  static Result<LaneDriver> open(Client& client);

  std::optional<Operation> begin(Submission& submission, const std::function<void()>& give_a_turn);
  bool go_on(Operation& operation, Submission& submission);
  void finish(Submission& submission);
  bool progress() { return lane_.progress(); }
  void wait(uint64_t until_ns) { lane_.wait(until_ns); }
  bool is_at_rest() const { return true; }
  void wait_idle(const SubmissionPool& pool, uint32_t rings) { pool.sleep(rings); }
  void interrupt() { lane_.interrupt(); }

  // Of the lane's fetches, as of a moment ago; any thread.
  VerdictCounts verdicts() const { return lane_.verdicts(); }

 private:
  LaneDriver(Lane lane, const Clock& clock) : lane_(std::move(lane)), clock_(&clock) {}
  void look_up(Operation& operation, Submission& submission);

  Lane lane_;
  const Clock* clock_;
};

using LaneRunner = FetchRunner<LaneDriver>;

}  // namespace farpage
