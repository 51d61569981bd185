#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/runner/runner_options.h"
#include "client/runner/submission_pool.h"
#include "tier/client.h"

namespace farpage {

// A lane and the thread that owns it. Any thread submits fetches, which never blocks; the runner's
// thread begins them in the order of their coming, drives them side by side, and tells their ends.
class LaneRunner {
 public:
  // Opens a lane of `client`, which outlives the runner.
  static Result<std::unique_ptr<LaneRunner>> start(Client& client, const RunnerOptions& options);
  // Ends once every operation has been released: no submit() may come meanwhile.
  ~LaneRunner();
  LaneRunner(const LaneRunner&) = delete;
  LaneRunner& operator=(const LaneRunner&) = delete;

  const std::shared_ptr<SubmissionPool>& pool() const { return pool_; }
  // One that was taken from the pool, and is whole.
  void submit(Submission& submission);
  // How many were submitted and have not ended, as of a moment ago.
  uint32_t under_way() const { return under_way_.load(std::memory_order_relaxed); }

  // Of the lane, as of a moment ago.
  LaneStats stats() const { return lane_.stats(); }

 private:
  struct Active {
    Submission* submission = nullptr;
    Fetch fetch;
    bool is_told = false;
  };

  LaneRunner(Lane lane, const Clock& clock, const RunnerOptions& options);
  void run();
  bool begin_submitted();
  bool answer_from_index(Submission& submission);
  void end_active();
  void release(Submission& submission);

  Lane lane_;
  const Clock& clock_;
  const std::shared_ptr<SubmissionPool> pool_;
  std::vector<Active> active_;  // the thread's
  std::vector<uint8_t> shown_;  // by an index, of the keys in hand
  std::atomic<uint32_t> under_way_{0};
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace farpage
