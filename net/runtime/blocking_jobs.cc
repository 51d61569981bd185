#include "net/runtime/blocking_jobs.h"

namespace farpage {

bool BlockingJobs::take(JobClass job, const std::function<void()>& work) {
  return pools_[static_cast<size_t>(job)].take(work);
}

void BlockingJobs::stop() {
  for (WorkerPool& pool : pools_) pool.stop();
}

}  // namespace farpage
