#include "node/clients/client_jobs.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "transport/fabric_gate.h"

namespace farpage {

// The jobs wait here and not in the runtime, which may keep what it never runs for longer than
// there is a fabric.
struct ClientJobs::Shared {
  struct Job {
    std::function<void(Fabric&)> work;
    std::function<void()> done;
  };

  // Both under the lock.
  bool end_may_begin() const { return !ends.empty() && ending < kMostEndsAtOnce; }
  size_t may_begin() const {
    return makes.size() + std::min(ends.size(), kMostEndsAtOnce - ending);
  }

  Shared(Runtime& its_runtime, Fabric& fabric) : runtime(its_runtime), gate(fabric) {}

  Runtime& runtime;
  FabricGate gate;
  std::mutex mutex;  // of what follows
  std::deque<Job> ends;
  std::deque<Job> makes;  // jobs that make something
  std::vector<Job> ended;
  size_t ending = 0;   // ends that are under way
  size_t threads = 0;  // that the runtime was asked for
  size_t coming = 0;   // those of them that have begun no job yet
  size_t untold = 0;   // jobs whose end was not told yet
  std::function<void()> when_ended;
};

ClientJobs::ClientJobs(Runtime& runtime, Fabric& fabric)
    : shared_(std::make_shared<Shared>(runtime, fabric)) {}

ClientJobs::~ClientJobs() {
  std::deque<Shared::Job> never;
  std::deque<Shared::Job> ends;
  {
    const std::lock_guard lock(shared_->mutex);
    std::swap(never, shared_->makes);
    std::swap(ends, shared_->ends);
  }
  shared_->gate.close();
  const std::lock_guard lock(shared_->mutex);
  shared_->ended.clear();
}

void ClientJobs::when_ended(std::function<void()> done) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->untold == 0) return shared_->runtime.after(0, std::move(done));
  shared_->when_ended = std::move(done);
}

void ClientJobs::add(std::function<void(Fabric&)> work, std::function<void()> done, bool is_end) {
  {
    const std::lock_guard lock(shared_->mutex);
    ++shared_->untold;
    auto& queue = is_end ? shared_->ends : shared_->makes;
    queue.push_back({std::move(work), std::move(done)});
    if (shared_->threads == kMostAtOnce) return;
    ++shared_->threads;
    ++shared_->coming;
  }
  shared_->runtime.offload(JobClass::kConnect, [shared = shared_] { begin_one(shared); });
}

void ClientJobs::begin_one(const std::shared_ptr<Shared>& shared) {
  // All inside the gate: once that is closed, this thread holds nothing of a job.
  (void)shared->gate.pass([&](Fabric& fabric) -> Result<void> {
    Shared::Job job;
    bool is_end = false;
    {
      const std::lock_guard lock(shared->mutex);
      --shared->coming;
      is_end = shared->end_may_begin();
      auto& queue = is_end ? shared->ends : shared->makes;
      if (queue.empty()) return {};
      job = std::move(queue.front());
      queue.pop_front();
      shared->ending += is_end ? 1 : 0;
    }
    job.work(fabric);
    const std::lock_guard lock(shared->mutex);
    shared->ending -= is_end ? 1 : 0;
    shared->ended.push_back(std::move(job));
    shared->runtime.after(0, [weak = std::weak_ptr(shared)] {
      if (const auto alive = weak.lock()) tell(alive);
    });
    return {};
  });
  {
    const std::lock_guard lock(shared->mutex);
    if (shared->may_begin() <= shared->coming) {
      --shared->threads;
      return;
    }
    ++shared->coming;
  }
  shared->runtime.offload(JobClass::kConnect, [shared] { begin_one(shared); });
}

void ClientJobs::tell(const std::shared_ptr<Shared>& shared) {
  std::vector<Shared::Job> ended;
  {
    const std::lock_guard lock(shared->mutex);
    std::swap(ended, shared->ended);
  }
  for (const Shared::Job& job : ended) job.done();
  const std::lock_guard lock(shared->mutex);
  shared->untold -= ended.size();
  if (shared->untold > 0 || !shared->when_ended) return;
  shared->runtime.after(0, std::exchange(shared->when_ended, nullptr));
}

}  // namespace farpage
