#pragma once

namespace farpage::c_api {

// Whether this thread runs a callback now: it moves pages, and must not wait for any.
bool in_callback() noexcept;

// A callback of the caller's, run so that in_callback() tells.
struct Callback {
  void (*run)(void* context) = nullptr;
  void* context = nullptr;

  static void enter(void* callback) noexcept;
};

}  // namespace farpage::c_api
