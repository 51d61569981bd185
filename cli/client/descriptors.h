#pragma once

#include <sys/resource.h>
#include <sys/stat.h>

#include "base/unique_fd.h"

namespace farpage {

// As many as the hard limit allows: each client takes several, and many shells allow 1,024.
inline void allow_many_descriptors() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Whether both are of one file, be it by two descriptions.
inline bool is_same_file(const UniqueFd& one, const UniqueFd& other) {
  struct stat first = {};
  struct stat second = {};
  return ::fstat(one.get(), &first) == 0 && ::fstat(other.get(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace farpage
