#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/check.h"
#include "prefetch/per_page.h"

namespace farpage::prefetch {

// A queue of pages, each in it once, out of the middle of which any can be taken at once.
class PageList {
 public:
  // Takes memory for the pages below this one.
  void reserve(size_t pages) { links_.reserve(pages); }
  size_t size() const { return size_; }
  bool contains(PageNumber page) const { return links_[page].linked; }
  // Of one that is not empty.
  PageNumber front() const { return front_; }
  PageNumber back() const { return back_; }

  // The page before one that is in it.
  std::optional<PageNumber> before(PageNumber page) const {
    const PageNumber before = links_[page].before;
    return before == kNone ? std::nullopt : std::optional(before);
  }

  void push_back(PageNumber page) {
    Link& link = links_.at(page);
    FARPAGE_CHECK(!link.linked);
    link = {back_, kNone, true};
    (back_ == kNone ? front_ : links_.at(back_).next) = page;
    back_ = page;
    ++size_;
  }

  void remove(PageNumber page) {
    Link& link = links_.at(page);
    FARPAGE_CHECK(link.linked);
    (link.before == kNone ? front_ : links_.at(link.before).next) = link.next;
    (link.next == kNone ? back_ : links_.at(link.next).before) = link.before;
    link.linked = false;
    --size_;
  }

  void move_to_back(PageNumber page) {
    if (page == back_) return;
    remove(page);
    push_back(page);
  }

  // Takes out its front or its back until put_back(), which puts them where they were among those
  // that are still in it, or at the end that they were taken from where others have come since.
  void set_aside(PageNumber page) {
    aside_.push_back({page, page == front_});
    remove(page);
  }
  void put_back() {
    for (; !aside_.empty(); aside_.pop_back()) {
      const Aside& last = aside_.back();
      last.was_front ? push_front(last.page) : push_back(last.page);
    }
  }
  size_t aside() const { return aside_.size(); }

 private:
  static constexpr PageNumber kNone = UINT32_MAX;
  struct Link {
    PageNumber before = kNone;
    PageNumber next = kNone;
    bool linked = false;
  };
  struct Aside {
    PageNumber page;
    bool was_front;
  };

  void push_front(PageNumber page) {
    Link& link = links_.at(page);
    FARPAGE_CHECK(!link.linked);
    link = {kNone, front_, true};
    (front_ == kNone ? back_ : links_.at(front_).before) = page;
    front_ = page;
    ++size_;
  }

  PerPage<Link> links_;
  PageNumber front_ = kNone;
  PageNumber back_ = kNone;
  size_t size_ = 0;
  std::vector<Aside> aside_;  // the last first to be put back
};

}  // namespace farpage::prefetch
