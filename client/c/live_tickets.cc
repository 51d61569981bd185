#include "client/c/live_tickets.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"

namespace farpage::c_api {

void LiveTickets::add(farpage_ticket& ticket) {
  const std::lock_guard lock(mutex_);
  ticket.place = tickets_.size();
  tickets_.push_back(&ticket);
}

void LiveTickets::remove(farpage_ticket& ticket) noexcept {
  const std::lock_guard lock(mutex_);
  tickets_[ticket.place] = tickets_.back();
  tickets_[ticket.place]->place = ticket.place;
  tickets_.pop_back();
}

bool LiveTickets::lends(const farpage_region& region) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(tickets_,
                             [&](const farpage_ticket* each) { return each->lends(region); });
}

std::shared_ptr<const Ticket> LiveTickets::first_unreleased() const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      tickets_, [](const farpage_ticket* each) { return !each->operation->released(); });
  return found == tickets_.end() ? nullptr : (*found)->operation;
}

// Without the lock, which callbacks of those that end may need.
void LiveTickets::wait_released() const {
  while (const auto ticket = first_unreleased()) ticket->wait_released(kNever);
}

void LiveTickets::leave(std::unique_ptr<farpage_ticket> ticket) {
  const std::lock_guard lock(mutex_);
  left_.push_back(std::move(ticket));
  any_left_.store(true, std::memory_order_relaxed);
}

void LiveTickets::free_left() {
  if (!any_left_.load(std::memory_order_relaxed)) return;
  std::vector<std::unique_ptr<farpage_ticket>> freed;  // outlives the lock, which they take
  const std::lock_guard lock(mutex_);
  const auto released = std::stable_partition(
      left_.begin(), left_.end(), [](const auto& each) { return !each->operation->released(); });
  std::move(released, left_.end(), std::back_inserter(freed));
  left_.erase(released, left_.end());
  any_left_.store(!left_.empty(), std::memory_order_relaxed);
}

}  // namespace farpage::c_api
