#include "lab/vtime/scheduled_wire.h"

#include <utility>

namespace farpage::vtime {

void ScheduledWire::send() {
  sent_ns_ = wire_.now_ns();
  is_beside_ = scheduler_.is_beside();
  is_first_ = true;
}

void ScheduledWire::plan(std::span<const PageNumber> expected, uint64_t step) {
  scheduler_.plan(expected, step);
  scheduler_.begin();
}

std::optional<Wire::Landed> ScheduledWire::next(uint64_t until_ns) {
  while (const auto landed = wire_.next(until_ns)) {
    const bool is_awaited = take(*landed);
    // The last transfer leaves the link to the next step.
    if (wire_.now_ns() < until_ns) scheduler_.begin();
    if (is_awaited) return Landed{landed->page, !landed->is_demand, true};
  }
  return std::nullopt;
}

bool ScheduledWire::take(const VirtualWire::Landed& landed) {
  if (landed.is_demand) {
    const uint64_t took_ns = wire_.now_ns() - sent_ns_;
    if (std::exchange(is_first_, false)) {
      scheduler_.on_demand(prefetch::PrefetchWindow::Read::kPage, took_ns, is_beside_);
    }
    return true;
  }
  if (scheduler_.on_landed(landed.page, true) == State::kJoined) return true;
  landed_.push_back(landed.page);
  return false;
}

std::span<const Wire::PageNumber> ScheduledWire::arrived() {
  arrived_.clear();
  for (const PageNumber page : landed_) {
    if (scheduler_.state(page) == State::kHere) arrived_.push_back(page);
  }
  landed_.clear();
  return arrived_;
}

}  // namespace farpage::vtime
