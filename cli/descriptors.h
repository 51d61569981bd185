#pragma once

#include <sys/resource.h>

namespace farpage {

// As many as the hard limit allows: each client takes several, and many shells allow 1,024.
inline void allow_many_descriptors() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace farpage
