#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "prefetch/registry/registry.h"
#include "tests/prefetch/known_future.h"

namespace farpage::prefetch {

using PageBytes = std::function<uint64_t(PageNumber)>;

inline uint64_t differing_bytes(PageNumber page) {
  return uint64_t{1'000} * (page % 7 + 1);
}

// The evicted pages, in order, when these are accessed one after the other.
inline std::vector<PageNumber> evicted_of(const std::string& name, uint64_t budget_pages,
                                          const std::vector<Access>& accesses,
                                          const PageBytes& page_bytes = differing_bytes) {
  const auto chosen = choose_policy(name);
  EXPECT_TRUE(chosen.has_value()) << name;
  Setting setting;
  setting.budget_pages = budget_pages;
  for (const Access& access : accesses) {
    setting.layout.heads = std::max(setting.layout.heads, access.head + 1);
  }
  setting.page_bytes = page_bytes;
  std::vector<PageNumber> pages;
  if (chosen->info->sees_future) {
    for (const Access& access : accesses) pages.push_back(access.page);
  }
  const KnownFuture future(pages);
  if (chosen->info->sees_future) setting.future = &future;
  const auto policy = chosen->make(setting);
  std::set<PageNumber> resident;
  std::vector<PageNumber> gone;
  for (const Access& access : accesses) {
    policy->on_access(access);
    if (resident.contains(access.page)) continue;
    if (resident.size() == budget_pages) {
      const PageNumber victim = policy->victim(access.step);
      EXPECT_EQ(resident.erase(victim), 1u) << name << " named a page that is not resident";
      policy->on_evict(victim, access.step);
      gone.push_back(victim);
    }
    resident.insert(access.page);
    policy->on_insert(access.page, access.step);
  }
  return gone;
}

}  // namespace farpage::prefetch
