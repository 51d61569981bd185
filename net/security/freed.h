#pragma once

namespace farpage {

// For a unique_ptr of what a C library makes, and frees with a function of its own.
template <typename T, auto kFree>
struct Freed {
  void operator()(T* object) const { kFree(object); }
};

}  // namespace farpage
