#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "net/security/greeting.h"

namespace farpage::tcp {

class TargetState;

// The channels that no peer has taken up yet, by name. A channel that closes withdraws its own
// offer, so that an offer costs the same however many others there are. Thread-safe.
class Offers {
 public:
  void add(const ChannelId& channel, std::shared_ptr<TargetState> state) {
    std::lock_guard lock(mutex_);
    offers_.emplace(channel, std::move(state));
  }

  // Null: there is none of this name, or no more.
  std::shared_ptr<TargetState> take(const ChannelId& channel) {
    std::lock_guard lock(mutex_);
    const auto offer = offers_.extract(channel);
    return offer.empty() ? nullptr : offer.mapped();
  }

  void withdraw(const ChannelId& channel) { take(channel); }

  size_t size() const {
    std::lock_guard lock(mutex_);
    return offers_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::map<ChannelId, std::shared_ptr<TargetState>> offers_;
};

}  // namespace farpage::tcp
