#pragma once

#include <cstddef>
#include <functional>

#include "base/status.h"

namespace farpage::paging {

// Makes the runs 0 to `runs` − 1, as many at once as there are processors, and returns when all
// have ended. `progress` hears, from one thread at a time, how many have. Fails as one of those
// that failed did; a run that finds no memory fails.
Result<void> make_all_runs(size_t runs, const std::function<Result<void>(size_t)>& run,
                           const std::function<void(size_t)>& progress);

// Makes this one alone.
Result<void> make_run(size_t number, const std::function<Result<void>(size_t)>& run);

}  // namespace farpage::paging
