#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "prefetch/access.h"

namespace farpage::prefetch {

// A value for each page, the same one for all that were never set.
template <typename T>
class PerPage {
 public:
  explicit PerPage(T unset = T()) : unset_(unset) {}

  const T& operator[](PageNumber page) const {
    return page < values_.size() ? values_[page] : unset_;
  }
  T& at(PageNumber page) {
    if (page >= values_.size()) values_.resize(page + size_t{1}, unset_);
    return values_[page];
  }
  // Takes memory for the pages below this one.
  void reserve(size_t pages) { values_.reserve(pages); }
  // Of all pages up to the highest that was set.
  std::span<T> values() { return values_; }
  size_t size() const { return values_.size(); }

 private:
  T unset_;
  std::vector<T> values_;
};

}  // namespace farpage::prefetch
