#pragma once

#include <cstdint>

namespace farpage::prefetch {

// A page, numbered from 0 in the order in which pages are first named, so that what is known of
// pages lies in arrays.
using PageNumber = uint32_t;

// A page is demanded.
struct Access {
  uint64_t number = 0;  // of this access, from 0: where Future has its place
  uint64_t step = 0;    // never less than that of the access before
  PageNumber page = 0;
};

}  // namespace farpage::prefetch
