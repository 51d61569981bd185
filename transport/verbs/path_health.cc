#include "transport/verbs/path_health.h"

#include <algorithm>

#include "base/clock.h"

namespace farpage::verbs {
namespace {

constexpr uint64_t kFirstPauseNs = kSecond;
constexpr uint64_t kLongestPauseNs = 30 * kSecond;

}  // namespace

std::string PathHealth::key(const Endpoint& where) {
  return where.host() + "/" + std::to_string(where.port());
}

// All channels that a path breaks under tell so at about the same time: that is one failure.
void PathHealth::broke(const Endpoint& where, uint64_t now_ns) {
  std::lock_guard lock(mutex_);
  Penalty& penalty = penalties_[key(where)];
  if (now_ns < penalty.until_ns) return;
  penalty.pause_ns = std::clamp(penalty.pause_ns * 2, kFirstPauseNs, kLongestPauseNs);
  penalty.until_ns = now_ns + penalty.pause_ns;
}

void PathHealth::works(const Endpoint& where) {
  std::lock_guard lock(mutex_);
  penalties_.erase(key(where));
}

uint64_t PathHealth::dial_ns(const Endpoint& where) const {
  std::lock_guard lock(mutex_);
  const auto penalty = penalties_.find(key(where));
  return penalty != penalties_.end() ? penalty->second.until_ns : 0;
}

}  // namespace farpage::verbs
