#include "lab/analyse/measures/steps.h"

#include <utility>

#include "prefetch/importance/token_counter.h"
#include "prefetch/per_page.h"

namespace farpage::analyse {

using prefetch::Access;

Result<void> for_each_step(const paging::AccessTrace& trace, const Parts& parts,
                           const std::function<void(const Step&, const Ahead&)>& use) {
  Ahead ahead;
  prefetch::PerPage<uint64_t> named_in;  // a step's index, from 1
  const auto take_first = [&] {
    const Step step = std::move(ahead.front());
    ahead.pop_front();
    use(step, ahead);
  };
  prefetch::TokenCounter counter(trace.layout);
  auto read = for_each_access(trace, [&](const Access& access) {
    const uint64_t index = counter.index_of(access);
    if (ahead.empty() || ahead.back().index != index) {
      if (ahead.size() > kAheadSteps) take_first();
      ahead.push_back({index, parts.of(access, index)});
    }
    ahead.back().accesses.push_back(access);
    if (named_in[access.page] == index + 1) return;
    named_in.at(access.page) = index + 1;
    ahead.back().pages.push_back(access.page);
  });
  if (!read) return read;
  while (!ahead.empty()) take_first();
  return {};
}

}  // namespace farpage::analyse
