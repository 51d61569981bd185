#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"
#include "client/runner/submission_pool.h"
#include "tier/client.h"

namespace farpage {

// The thread that puts and removes pages for those that submit it. It copies the pages of one put
// after the other into the staging at their nodes; the nodes' acknowledgements come side by side.
class WriteRunner {
 public:
  // `client` and `runtime`, the client's own, outlive it. `depth`: submissions under way at one
  // time.
  WriteRunner(Client& client, Runtime& runtime, size_t depth);
  // Ends once every operation has been released: no submit() may come meanwhile.
  ~WriteRunner();
  WriteRunner(const WriteRunner&) = delete;
  WriteRunner& operator=(const WriteRunner&) = delete;

  const std::shared_ptr<SubmissionPool>& pool() const { return pool_; }
  // One that was taken from the pool, and is whole.
  void submit(Submission& submission);

 private:
  // A put, a remove, or neither: a flush, which is answered once those before it are told.
  struct Active {
    Submission* submission = nullptr;
    std::optional<Put> put;
    std::optional<Remove> remove;
    bool is_told = false;

    bool is_answered() const { return put ? put->done() : remove && remove->done(); }
    bool is_flush() const { return !put && !remove; }
    bool is_released() const { return !put || put->released(); }
  };

  void run();
  void begin(Submission& submission);
  void tell(Active& active);
  void end_active();

  Client& client_;
  Runtime& runtime_;
  const std::shared_ptr<SubmissionPool> pool_;
  std::vector<Active> active_;  // the thread's
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace farpage
