// A file of anybody that names pages: a workload of KV-Hierarchy-Lab's, or labels. Refused with the
// file, or accesses whose steps never go back and whose pages are numbered as they are named, and a
// label for each page of the trace.
#include <algorithm>

#include "base/check.h"
#include "lab/analyse/measures/labels.h"
#include "lab/kvhl/workload.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace farpage;
  const MemoryFile file(data, bytes);
  const auto accesses = kvhl::read_accesses(file.path());
  if (accesses) {
    FARPAGE_CHECK(!accesses->empty());
    FARPAGE_CHECK(std::ranges::is_sorted(*accesses, {}, &prefetch::Access::step));
    uint64_t pages = 0;
    uint64_t number = 0;
    for (const prefetch::Access& access : *accesses) {
      FARPAGE_CHECK(access.number == number++ && access.page <= pages);
      if (access.page == pages) ++pages;
    }
  } else {
    FARPAGE_CHECK(accesses.error().message.find(file.path()) != std::string::npos);
  }
  constexpr uint64_t kPages = 1'000;
  const auto milestones = analyse::read_milestones(file.path(), kPages);
  if (milestones) {
    FARPAGE_CHECK(milestones->size() == kPages);
    FARPAGE_CHECK(std::ranges::count(*milestones, true) > 0);
  } else {
    FARPAGE_CHECK(milestones.error().message.find(file.path()) != std::string::npos);
  }
  return 0;
}
