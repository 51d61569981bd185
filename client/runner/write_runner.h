#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"
#include "client/runner/submission_pool.h"
#include "tier/client.h"

namespace farpage {

// Two threads that put and remove pages for those that submit it. The writer copies the pages of
// one put after the other into the staging at their nodes, which may block it; the teller hears the
// nodes' acknowledgements, and tells each submission's end by its deadline, also of one that waits
// behind a blocked writer.
class WriteRunner {
 public:
  // `client` outlives it.
  // Throws std::system_error, if there is no thread to be had.
  WriteRunner(Client& client, const RunnerOptions& options);
  // Ends once every submission has been released: no submit() may come meanwhile.
  ~WriteRunner();
  WriteRunner(const WriteRunner&) = delete;
  WriteRunner& operator=(const WriteRunner&) = delete;

  const std::shared_ptr<SubmissionPool>& pool() const { return pool_; }
  // For another thread of the client's that submits here. It lasts as long as this: the teller may
  // still touch a submission when its ticket has gone. Any thread.
  std::shared_ptr<SubmissionPool> make_pool(const RunnerOptions& options);
  // One that was taken from a pool of this, and is whole.
  void submit(Submission& submission);

 private:
  // A put on its way to the writer and back. Whoever takes it first has it: the writer, or the
  // teller once its deadline has passed.
  struct Writing {
    std::atomic<bool> is_taken{false};
    std::atomic<bool> is_written{false};
    std::optional<Put> put;  // the writer's, until it is written
    bool take() { return !is_taken.exchange(true); }
  };
  // What the teller knows of a submission: a put, a remove, or neither: a flush, which is answered
  // once those before it are told.
  struct Active {
    Submission* submission = nullptr;
    std::shared_ptr<Writing> writing;
    std::optional<Remove> remove;
    bool is_told = false;

    bool is_answered() const {
      if (remove) return remove->done();
      return writing != nullptr && writing->is_written.load() &&
             (!writing->put || writing->put->done());
    }
    bool is_released() const {
      return writing == nullptr || !writing->put || writing->put->released();
    }
    bool is_flush() const { return writing == nullptr && !remove; }
  };
  struct ToWrite {
    Submission* submission;
    std::shared_ptr<Writing> writing;
  };

  void tell_all();
  void write_all();
  void end_writer();
  void begin(Submission& submission);
  static bool is_due(Active& active, uint64_t now_ns);
  void tell(Active& active);
  void end_active();

  Client& client_;
  Runtime& runtime_;
  const std::shared_ptr<SubmissionPool> pool_;
  std::vector<Active> active_;  // the teller's
  std::atomic<bool> is_ending_{false};
  std::mutex mutex_;  // of what follows: the pools of others, and what the teller hands on
  std::vector<std::shared_ptr<SubmissionPool>> pools_;
  std::condition_variable handed_;
  std::deque<ToWrite> to_write_;
  bool writer_ends_ = false;
  std::string in_the_way_;  // why the put that was written last failed; empty: it has not
  std::thread writer_;
  std::thread teller_;
};

}  // namespace farpage
