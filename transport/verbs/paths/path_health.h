#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "net/address/resolve.h"

namespace farpage::verbs {

// Which of its peers' addresses a fabric had better leave alone, and for how long: one that does
// not answer, or answers and carries nothing, is tried again after 1, 2, 4 … 30 seconds. If nothing
// is heard of it for 30 seconds more, it is forgotten when another one breaks. Thread-safe.
class PathHealth {
 public:
  // Of so many at once; then that which may be dialled soonest is forgotten.
  static constexpr size_t kMost = 1'024;

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
  void make_room(const std::string& name, uint64_t now_ns);

  mutable std::mutex mutex_;
  std::map<std::string, Penalty> penalties_;
};

}  // namespace farpage::verbs
