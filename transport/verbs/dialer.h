#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "net/runtime/blocking_jobs.h"
#include "transport/verbs/paths/path_health.h"
#include "transport/verbs/paths/path_ledger.h"
#include "transport/verbs/send_queue.h"

namespace farpage::verbs {

// Where the connections of one channel arrive, from the threads that dial them. Thread-safe.
class Arrivals {
 public:
  // Dropped if the channel has been closed meanwhile.
  void bring(size_t path, Result<std::unique_ptr<SendQueue>> dialled);
  // Whether there may be something to take; wait-free.
  bool any() const { return any_.load(std::memory_order_acquire); }
  // Nothing: has not arrived yet, or did not come about; `ended` says which.
  std::unique_ptr<SendQueue> take(size_t path, bool& ended);
  void close();
  bool is_closed() const { return closed_.load(); }

  // Until `paths` of them have ended one way or the other, or the first has been there for
  // `grace_ns`, or the deadline. The error of the last that did not come about, if none did.
  Result<void> wait_for_first(size_t paths, uint64_t grace_ns, uint64_t deadline_ns);

 private:
  struct Path {
    bool ended = false;
    std::unique_ptr<SendQueue> connection;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Path, kMaxDevices> paths_;
  std::atomic<bool> any_{false};
  std::atomic<bool> closed_{false};
  Error error_ = {Code::kTimeout, "no path to the node came about in time (RDMA)"};
};

// Connects the paths of all channels of a fabric, and takes leave of them, on threads of its own.
// Thread-safe.
class Dialer {
 public:
  static constexpr size_t kDialThreads = 64;
  static constexpr size_t kDisposeThreads = 64;

  explicit Dialer(std::shared_ptr<const Devices> devices)
      : devices_(std::move(devices)), ledger_(devices_) {}
  // Ends what is being dialled.
  ~Dialer();

  // `where` and `introduction` are those of one path; what comes of it goes to `arrivals`.
  // `one_path`: the peer refuses all but the first that comes, which says nothing against those.
  void dial(const std::shared_ptr<Arrivals>& arrivals, const Endpoint& where,
            const ConnectWire& introduction, uint64_t deadline_ns, bool one_path = false);

  // Ends a connection whose work has ended, which can last, on a thread of its own. It waits for no
  // dial, however many of them are silent.
  void dispose(std::unique_ptr<SendQueue> queue);

  PathHealth& health() { return health_; }
  const PathLedger& ledger() const { return ledger_; }

 private:
  size_t device_for(size_t path) const;

  const std::shared_ptr<const Devices> devices_;
  PathHealth health_;
  PathLedger ledger_;
  std::atomic<bool> stopped_{false};
  BlockingJobs jobs_{{.dial = kDialThreads, .dispose = kDisposeThreads}};  // first to go
};

}  // namespace farpage::verbs
