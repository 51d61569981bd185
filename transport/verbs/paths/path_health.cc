#include "transport/verbs/paths/path_health.h"

#include <algorithm>

#include "base/clock.h"

namespace farpage::verbs {
namespace {

constexpr uint64_t kFirstPauseNs = kSecond;
constexpr uint64_t kLongestPauseNs = 30 * kSecond;
constexpr uint64_t kForgottenNs = 30 * kSecond;  // after the pause, if nothing new is heard

}  // namespace

std::string PathHealth::key(const Endpoint& where) {
  return where.host() + "/" + std::to_string(where.port());
}

// All channels that a path breaks under tell so at about the same time: that is one failure.
void PathHealth::broke(const Endpoint& where, uint64_t now_ns) {
  const std::string name = key(where);
  std::lock_guard lock(mutex_);
  make_room(name, now_ns);
  Penalty& penalty = penalties_[name];
  if (now_ns < penalty.until_ns) return;
  penalty.pause_ns = std::clamp(penalty.pause_ns * 2, kFirstPauseNs, kLongestPauseNs);
  penalty.until_ns = now_ns + penalty.pause_ns;
}

// Peers choose the addresses: what is noted of them must not grow with each.
void PathHealth::make_room(const std::string& name, uint64_t now_ns) {
  if (penalties_.contains(name)) return;
  std::erase_if(penalties_, [now_ns](const auto& penalty) {
    return now_ns >= penalty.second.until_ns + kForgottenNs;
  });
  if (penalties_.size() < kMost) return;
  penalties_.erase(std::min_element(
      penalties_.begin(), penalties_.end(),
      [](const auto& a, const auto& b) { return a.second.until_ns < b.second.until_ns; }));
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
