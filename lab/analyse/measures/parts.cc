#include "lab/analyse/measures/parts.h"

#include <unordered_map>

#include "prefetch/importance/token_counter.h"

namespace farpage::analyse {
namespace {

constexpr size_t kFewest = 10;  // sequences: an interval from fewer says next to nothing

}  // namespace

Result<Parts> parts_of(const paging::AccessTrace& trace) {
  prefetch::TokenCounter counter(trace.layout);
  std::unordered_map<uint32_t, size_t> parts;  // of sequences with accesses
  std::vector<size_t> part_by_step(trace.sequences.size());
  auto read = for_each_access(trace, [&](const prefetch::Access& access) {
    counter.index_of(access);
    if (trace.sequences.empty()) return;
    part_by_step[access.step] =
        parts.emplace(trace.sequences[access.step], parts.size()).first->second;
  });
  return read.map([&] {
    if (parts.size() < kFewest) return Parts(counter.tokens());
    return Parts(counter.tokens(), parts.size(), std::move(part_by_step));
  });
}

}  // namespace farpage::analyse
