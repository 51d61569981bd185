#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "net/resolve.h"

namespace farpage::verbs {

// Which of its peers' addresses a fabric had better leave alone, and for how long: one that does
// not answer, or answers and carries nothing, is tried again after 1, 2, 4 … 30 seconds.
// Thread-safe.
class PathHealth {
 public:
  void broke(const Endpoint& where, uint64_t now_ns);
  // Pages have come over it.
  void works(const Endpoint& where);
  // When it may be dialled (again).
  uint64_t dial_ns(const Endpoint& where) const;

 private:
  struct Penalty {
    uint64_t pause_ns = 0;
    uint64_t until_ns = 0;
  };
  static std::string key(const Endpoint& where);

  mutable std::mutex mutex_;
  std::map<std::string, Penalty> penalties_;
};

}  // namespace farpage::verbs
