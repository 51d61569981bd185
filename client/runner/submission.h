#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tier/client.h"

namespace farpage {

class Completions;

// Who is told that a submission has ended, beside its ticket. Both may be given.
struct Notification {
  Completions* completions = nullptr;  // gets `tag`; outlives the operation
  uint64_t tag = 0;
  // Runs on a thread of the client's, which moves nothing meanwhile: it must be short, and must not
  // wait for an submission.
  void (*callback)(void* context) = nullptr;
  void* context = nullptr;
};

enum class SubmissionKind : uint8_t { kFetch, kExists, kPut, kRemove, kFlush };

// One operation that a thread has submitted, and the client's thread that owns its lane carries
// out. It keeps what the caller gave by value, so that only memory of pages is lent. Recycled with
// the memory that it has taken.
class Submission {
 public:
  // By the thread that submits it, before it is submitted.
  SubmissionKind kind = SubmissionKind::kFetch;
  std::vector<PageRequest> requests;  // of a fetch
  FetchOptions options;
  std::vector<PutRequest> puts;
  std::vector<PageKey> keys;  // of a remove, or a question whether pages are there
  uint64_t deadline_ns = 0;
  Notification notification;

  Submission* next = nullptr;  // its pool's, while it is submitted

  // By the client's thread until it is done.
  std::vector<KeyAnswer> answers;     // of an index, to a question whether pages are there
  std::vector<PageVerdict> verdicts;  // `place` may change until it is released
  std::vector<PutResult> results;
  uint64_t removed = 0;
  Code code = Code::kOk;  // of a remove, or a flush
  std::string why;        // of a put or a remove that is not acknowledged: a sentence

  // Any thread.
  bool done() const { return state_.load(std::memory_order_acquire) >= kDone; }
  bool released() const { return state_.load(std::memory_order_acquire) == kReleased; }
  // Until then at the most; return done() and released().
  bool wait_done(uint64_t deadline_ns) { return wait(kDone, deadline_ns); }
  bool wait_released(uint64_t deadline_ns) { return wait(kReleased, deadline_ns); }

  // The client's thread alone. finish() tells who waits; release() may come later.
  void finish();
  void release();
  // Before it is submitted anew.
  void reset();

 private:
  enum State : uint8_t { kUnderWay, kDone, kReleased };
  void set(State state);
  bool wait(State least, uint64_t deadline_ns);

  std::atomic<uint8_t> state_{kUnderWay};
  std::mutex mutex_;  // of a wait; nobody else's fetch ever takes it
  std::condition_variable changed_;
};

}  // namespace farpage
