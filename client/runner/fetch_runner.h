#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/runner/runner_options.h"
#include "client/runner/submission_pool.h"
#include "tier/client.h"

namespace farpage {

// A lane and the thread that owns it. Any thread submits, which never blocks; the runner's thread
// begins what is submitted in the order of its coming, drives it side by side, and tells its end.
//
// A `Driver` knows the kind of lane:
//   Operation                         one under way, with done() and released()
//   open(client, options...)          with Result
//   begin(submission, give_a_turn)    std::optional<Operation>; none: it is over already, or has no
//                                     ticket. Calls give_a_turn() now and then where it takes long
//   go_on(operation, submission)      whether something of it has begun anew; asked in each turn
//   finish(submission)                done, and about to be told
//   progress(), wait(until), interrupt()    as the lane's, whose interrupts are allowed
//   wait_idle(pool, rings)            until something is submitted after these rings
template <typename Driver>
class FetchRunner {
 public:
  // `client` outlives the runner.
  template <typename... Options>
  static Result<std::unique_ptr<FetchRunner>> start(Client& client, const RunnerOptions& runner,
                                                    Options&&... options) {
    auto driver = Driver::open(client, options...);
    if (!driver) return tl::unexpected(driver.error());
    return std::unique_ptr<FetchRunner>(new FetchRunner(std::move(*driver), runner));
  }
  // Ends once every operation has been released: no submit() may come meanwhile.
  ~FetchRunner() {
    is_ending_.store(true);
    ring();
    thread_.join();
  }
  FetchRunner(const FetchRunner&) = delete;
  FetchRunner& operator=(const FetchRunner&) = delete;

  const std::shared_ptr<SubmissionPool>& pool() const { return pool_; }
  // One that was taken from the pool, and is whole.
  void submit(Submission& submission) {
    under_way_.fetch_add(1, std::memory_order_relaxed);
    pool_->submit(submission);
    driver_.interrupt();
  }

  // How many were submitted and have not ended, as of a moment ago.
  uint32_t under_way() const { return under_way_.load(std::memory_order_relaxed); }
  // For its counts.
  const Driver& driver() const { return driver_; }

 private:
  using Operation = typename Driver::Operation;
  static constexpr size_t kAtOnce = 16;  // submissions begun in one turn

  struct Active {
    Submission* submission = nullptr;
    Operation operation;
    bool is_told = false;
  };

  FetchRunner(Driver driver, const RunnerOptions& options)
      : driver_(std::move(driver)), pool_(std::make_shared<SubmissionPool>(options)) {
    active_.reserve(options.queue_depth);
    thread_ = std::thread([this] { run(); });
  }

  void ring() {
    pool_->ring();
    driver_.interrupt();
  }

  void run() {
    while (true) {
      const uint32_t seen = pool_->rings();
      const bool is_ending = is_ending_.load();  // what was submitted before is in the queue
      const bool has_begun = begin_submitted();
      const bool has_moved = driver_.progress();
      const bool has_gone_on = end_active();
      if (has_begun || has_moved || has_gone_on) continue;
      if (!active_.empty() || (is_ending && !driver_.is_at_rest())) {
        driver_.wait(kNever);
      } else if (is_ending) {
        return;
      } else {
        driver_.wait_idle(*pool_, seen);
      }
    }
  }

  // A few, so that those under way have their turn.
  bool begin_submitted() {
    size_t begun = 0;
    for (; begun < kAtOnce; ++begun) {
      Submission* submission = pool_->next_submitted();
      if (submission == nullptr) break;
      const bool has_ticket = submission->has_ticket();  // with which it may go
      auto operation = driver_.begin(*submission, [this] { end_active(); });
      if (operation) {
        active_.push_back({submission, std::move(*operation), false});
      } else {
        under_way_.fetch_sub(1, std::memory_order_relaxed);
      }
      if (!has_ticket) pool_->give_back(*submission);
    }
    return begun > 0;
  }

  // Whether one has gone on.
  bool end_active() {
    bool has_gone_on = false;
    for (size_t i = 0; i < active_.size();) {
      Active& active = active_[i];
      has_gone_on |= driver_.go_on(active.operation, *active.submission);
      if (!active.is_told && active.operation.done()) {
        active.is_told = true;
        driver_.finish(*active.submission);
        active.submission->finish();
      }
      if (!active.is_told || !active.operation.released()) {
        ++i;
        continue;
      }
      Submission& submission = *active.submission;
      std::swap(active, active_.back());
      active_.pop_back();  // with its operation
      under_way_.fetch_sub(1, std::memory_order_relaxed);
      submission.release();
    }
    return has_gone_on;
  }

  Driver driver_;
  const std::shared_ptr<SubmissionPool> pool_;
  std::vector<Active> active_;  // the thread's
  std::atomic<uint32_t> under_way_{0};
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace farpage
