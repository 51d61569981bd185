#include "prefetch/page_list.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>

#include "base/random.h"

namespace farpage::prefetch {
namespace {

RC_GTEST_PROP(PageListProperty, IsAQueue, (uint32_t seed)) {
  Random random(seed);
  PageList list;
  std::deque<PageNumber> model;
  for (size_t turn = 0; turn < 300; ++turn) {
    const auto page = static_cast<PageNumber>(random.below(20));
    const auto found = std::ranges::find(model, page);
    RC_ASSERT(list.contains(page) == (found != model.end()));
    if (found == model.end()) {
      list.push_back(page);
      model.push_back(page);
    } else if (random.below(2) == 0) {
      list.move_to_back(page);
      model.erase(found);
      model.push_back(page);
    } else {
      list.remove(page);
      model.erase(found);
    }
    RC_ASSERT(list.size() == model.size());
    if (model.empty()) continue;
    RC_ASSERT(list.front() == model.front());
    RC_ASSERT(list.back() == model.back());
  }
}

}  // namespace
}  // namespace farpage::prefetch
