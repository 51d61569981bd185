#pragma once

#include <cstdint>

#include "base/check.h"
#include "prefetch/per_page.h"

namespace farpage::prefetch {

// Pages in lists, each page in one at most, and each list by use.
class UseLists {
 public:
  static constexpr PageNumber kNone = UINT32_MAX;

  bool contains(PageNumber page) const { return entries_[page].list != kNone; }
  uint32_t list(PageNumber page) const { return entries_[page].list; }
  uint64_t used_at(PageNumber page) const { return entries_[page].used_at; }
  PageNumber oldest(uint32_t list) const { return ends_[list].oldest; }  // kNone: it is empty

  // One that is in none is used now.
  void use(PageNumber page) { entries_.at(page).used_at = ++uses_; }
  // Behind all that were used before it: goes past those that were used since, from `newer` on,
  // which is one of them, or from the newest.
  void add(PageNumber page, uint32_t list, PageNumber newer = kNone) {
    const uint64_t used_at = entries_[page].used_at;
    FARPAGE_CHECK(newer == kNone || entries_[newer].list == list);
    PageNumber older = newer == kNone ? ends_[list].newest : entries_[newer].older;
    while (older != kNone && entries_[older].used_at > used_at) {
      newer = older;
      older = entries_[older].older;
    }
    link(page, list, older, newer);
  }
  // One that was used before all of the list.
  void add_oldest(PageNumber page, uint32_t list) { link(page, list, kNone, ends_[list].oldest); }
  void remove(PageNumber page) {
    Entry& entry = entries_.at(page);
    FARPAGE_CHECK(entry.list != kNone);
    Ends& ends = ends_.at(entry.list);
    (entry.newer == kNone ? ends.newest : entries_.at(entry.newer).older) = entry.older;
    (entry.older == kNone ? ends.oldest : entries_.at(entry.older).newer) = entry.newer;
    entry.list = kNone;
  }

 private:
  struct Entry {
    uint64_t used_at = 0;
    PageNumber older = kNone;
    PageNumber newer = kNone;
    uint32_t list = kNone;
  };
  struct Ends {
    PageNumber oldest = kNone;
    PageNumber newest = kNone;
  };

  void link(PageNumber page, uint32_t list, PageNumber older, PageNumber newer) {
    Entry& entry = entries_.at(page);
    FARPAGE_CHECK(entry.list == kNone);
    entry = {entry.used_at, older, newer, list};
    Ends& ends = ends_.at(list);
    (newer == kNone ? ends.newest : entries_.at(newer).older) = page;
    (older == kNone ? ends.oldest : entries_.at(older).newer) = page;
  }

  PerPage<Entry> entries_;
  PerPage<Ends> ends_;  // by list
  uint64_t uses_ = 0;
};

}  // namespace farpage::prefetch
