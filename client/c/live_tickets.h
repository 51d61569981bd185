#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "client/c/ticket.h"

namespace farpage::c_api {

// The tickets of one client that are not freed; they may outlive it. Any thread.
class LiveTickets {
 public:
  void add(farpage_ticket& ticket);
  void remove(farpage_ticket& ticket) noexcept;

  bool lends(const farpage_region& region) const;
  void wait_released() const;

  // Takes over one that its owner has freed from a callback, which cannot wait until it is
  // released.
  void leave(std::unique_ptr<farpage_ticket> ticket);
  // Frees those of them that are released by now.
  void free_left();

 private:
  std::shared_ptr<const Ticket> first_unreleased() const;

  mutable std::mutex mutex_;
  std::vector<farpage_ticket*> tickets_;
  std::vector<std::unique_ptr<farpage_ticket>> left_;
  std::atomic<bool> any_left_{false};
};

}  // namespace farpage::c_api
