#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tier/ahead/observed_access.h"
#include "tier/client.h"

namespace farpage {

namespace cuda {
class RecordedEvent;
}
class Completions;
class Fence;

// Who is told that a submission has ended, beside its ticket. Any of them may be
// given.
struct Notification {
  Completions* completions = nullptr;  // gets `tag`; outlives the operation
  uint64_t tag = 0;
  // Runs on a thread of the client's, which moves nothing meanwhile: it must be short, and must not
  // wait for an submission.
  void (*callback)(void* context) = nullptr;
  void* context = nullptr;
  // Of a fetch alone: gets the verdicts, before anybody else hears of the end. It outlives the
  // operation.
  Fence* fence = nullptr;
};

enum class SubmissionKind : uint8_t {
  kFetch,
  kExists,
  kPut,
  kRemove,
  kFlush,
  // Without a ticket: nobody hears of their end.
  kAnnounce,
  kWithdraw,
  kMarkMilestones,
  kObserve,
};

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
  std::shared_ptr<const cuda::RecordedEvent> behind;  // puts of a GPU's memory begin; or null
  std::vector<PageKey> keys;                          // of all others
  std::vector<ObservedAccess> accesses;
  uint64_t deadline_ns = 0;  // of an announcement: when it is withdrawn
  Notification notification;

  // Its pool's.
  Submission* next = nullptr;  // while it is submitted
  uint64_t spin_ns = 0;

  // By the client's thread until it is done.
  std::vector<KeyAnswer> answers;     // of an index, to a question whether pages are there
  uint64_t answered_ns = 0;           // ... how long they took
  std::vector<PageVerdict> verdicts;  // `place` may change until it is released
  std::vector<PutResult> results;
  uint64_t removed = 0;
  Code code = Code::kOk;  // of a remove, or a flush
  std::string why;        // of a put or a remove that is not acknowledged: a sentence

  bool has_ticket() const { return kind < SubmissionKind::kAnnounce; }

  // Any thread.
  bool is_free() const { return state_.load(std::memory_order_relaxed) == kFree; }
  bool done() const { return state_.load(std::memory_order_acquire) >= kDone; }
  bool released() const { return state_.load(std::memory_order_acquire) == kReleased; }
  // Until then at the most; return done() and released().
  bool wait_done(uint64_t deadline_ns) { return wait(kDone, deadline_ns); }
  bool wait_released(uint64_t deadline_ns) { return wait(kReleased, deadline_ns); }

  // The client's thread alone. finish() tells who waits; release() may come later.
  void finish();
  void release();
  // The pool alone: it is in use from now on, or no more.
  void take() { state_.store(kUnderWay, std::memory_order_relaxed); }
  void reset();

 private:
  enum State : uint8_t { kFree, kUnderWay, kDone, kReleased };
  void set(State state);
  bool wait(State least, uint64_t deadline_ns);

  std::atomic<uint8_t> state_{kFree};
  std::mutex mutex_;  // of a wait; nobody else's fetch ever takes it
  std::condition_variable changed_;
};

}  // namespace farpage
