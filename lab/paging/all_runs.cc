#include "lab/paging/all_runs.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace farpage::paging {

Result<void> make_all_runs(size_t runs, const std::function<Result<void>(size_t)>& run,
                           const std::function<void(size_t)>& progress) {
  std::atomic<size_t> begun = 0;
  std::mutex mutex;
  size_t done = 0;
  Result<void> all;
  const auto work = [&] {
    for (size_t i = begun++; i < runs; i = begun++) {
      const Result<void> one = make_run(i, run);
      const std::lock_guard lock(mutex);
      if (!one) all = one;
      progress(++done);
    }
  };
  std::vector<std::jthread> workers;
  const size_t processors = std::max(1u, std::thread::hardware_concurrency());
  for (size_t i = 0; i < std::min(processors, runs); ++i) workers.emplace_back(work);
  workers.clear();
  return all;
}

Result<void> make_run(size_t number, const std::function<Result<void>(size_t)>& run) {
  try {
    return run(number);
  } catch (const std::bad_alloc&) {
    return fail(Code::kExhausted,
                "a run found no memory left: ask for fewer policies and budgets at once, or for "
                "policies that keep less");
  }
}

}  // namespace farpage::paging
