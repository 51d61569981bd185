#pragma once

#include <cstddef>
#include <span>

namespace farpage {

// Runs work(context), which reads `memory` and does nothing else that could not be left in the
// middle: no lock, nothing to free. False: some of the memory is gone, because its file has been
// shortened by another process or its hardware has failed, and the work was left there. Without
// this the kernel ends the process (SIGBUS). Calls do not nest. Any thread; costs nanoseconds.
//
// The first call takes over the process's handler of SIGBUS, and calls the one that was there for
// all other memory.
bool run_unless_lost(std::span<const std::byte> memory, void (*work)(void*), void* context);

template <typename Work>
bool run_unless_lost(std::span<const std::byte> memory, Work& work) {
  return run_unless_lost(
      memory, [](void* context) { (*static_cast<Work*>(context))(); }, &work);
}

}  // namespace farpage
