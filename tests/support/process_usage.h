#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>

namespace farpage {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

inline size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

inline size_t resident_bytes() {
  size_t ignored = 0;
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> ignored >> pages;
  return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// Of memory, since it had `before` of it. A sanitizer keeps what is freed and shadows what is
// allocated: with one, nothing can be said.
inline bool has_taken_less_than(size_t bytes, size_t before) {
  return kSanitized || resident_bytes() < before + bytes;
}

// False: this machine does not let a process have so many.
inline bool allow_descriptors(rlim_t count) {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= count) return true;
  limit.rlim_cur = std::min(limit.rlim_max, count);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= count;
}

}  // namespace farpage
