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

// Of one of ten, ends are set aside or taken; what is put back stands among the others as before.
RC_GTEST_PROP(PageListProperty, WhatWasSetAsideComesBackWhereItWas, (uint32_t seed)) {
  Random random(seed);
  PageList list;
  std::deque<PageNumber> model;
  for (PageNumber page = 0; page < 10; ++page) {
    list.push_back(page);
    model.push_back(page);
  }
  size_t aside = 0;
  while (list.size() > random.below(5)) {
    const PageNumber page = random.below(2) == 0 ? list.front() : list.back();
    if (random.below(2) == 0) {
      list.set_aside(page);
      ++aside;
    } else {
      list.remove(page);
      std::erase(model, page);
    }
    RC_ASSERT(list.aside() == aside);
    RC_ASSERT(list.size() == model.size() - aside);
  }
  list.put_back();
  RC_ASSERT(list.aside() == 0u);
  RC_ASSERT(list.size() == model.size());
  for (const PageNumber page : model) {
    RC_ASSERT(list.front() == page);
    list.remove(page);
  }
}

}  // namespace
}  // namespace farpage::prefetch
