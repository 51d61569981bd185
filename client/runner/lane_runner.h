#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/runner/submission_pool.h"
#include "tier/client.h"

namespace farpage {

// A lane and the thread that owns it. Any thread submits fetches, which never blocks; the runner's
// thread begins them in the order of their coming, drives them side by side, and tells their ends.
class LaneRunner {
 public:
  // Opens a lane of `client`, which outlives the runner. `depth`: submissions under way at one
  // time.
  static Result<std::unique_ptr<LaneRunner>> start(Client& client, size_t depth);
  // Ends once every operation has been released: no submit() may come meanwhile.
  ~LaneRunner();
  LaneRunner(const LaneRunner&) = delete;
  LaneRunner& operator=(const LaneRunner&) = delete;

  const std::shared_ptr<SubmissionPool>& pool() const { return pool_; }
  // One that was taken from the pool, and is whole.
  void submit(Submission& submission);

  // Of the lane, as of a moment ago.
  LaneStats stats() const { return lane_.stats(); }

 private:
  struct Active {
    Submission* submission = nullptr;
    Fetch fetch;
    IndexQuestion question;
    bool asks = false;  // the question; otherwise it is the fetch that is under way
    bool is_told = false;
  };

  LaneRunner(Lane lane, const Clock& clock, size_t depth);
  void run();
  bool begin_submitted();
  Active begin(Submission& submission);
  bool look_up(Submission& submission);
  void go_on_unknown(Active& active);
  bool end_active();

  Lane lane_;
  const Clock& clock_;
  const std::shared_ptr<SubmissionPool> pool_;
  std::vector<Active> active_;  // the thread's
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace farpage
