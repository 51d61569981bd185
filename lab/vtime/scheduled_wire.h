#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lab/vtime/virtual_wire.h"
#include "lab/vtime/wire.h"
#include "prefetch/scheduler.h"

namespace farpage::vtime {

// A virtual wire, and the scheduler of what comes over it ahead: what a PrefetchLane is to an
// engine.
class ScheduledWire final : public Wire {
 public:
  // `wire` outlives it.
  ScheduledWire(VirtualWire& wire, const prefetch::SchedulerOptions& options)
      : wire_(wire), scheduler_(options, wire) {}

  uint64_t now_ns() const override { return wire_.now_ns(); }

  State demand(PageNumber page, uint64_t step) override { return scheduler_.demand(page, step); }
  void fetch(PageNumber page) override { wire_.demand(page); }
  void on_access(const prefetch::Access& access) override { wire_.on_access(access); }
  void send() override;
  std::optional<Landed> next(uint64_t until_ns) override;

  void plan(std::span<const PageNumber> expected, uint64_t step) override;
  State state(PageNumber page) const override { return scheduler_.state(page); }
  uint64_t under_way() const override { return scheduler_.under_way(); }
  std::span<const PageNumber> arrived() override;
  void expire(PageNumber page) override { scheduler_.expire(page); }
  void evict(PageNumber page) override { scheduler_.evict(page); }
  prefetch::PrefetchAccount account() const override { return scheduler_.account(); }

  void keep(PageNumber page) override { wire_.keep(page); }
  void forget(PageNumber page) override { wire_.forget(page); }

 private:
  // Answers whether it is waited for.
  bool take(const VirtualWire::Landed& landed);

  VirtualWire& wire_;
  prefetch::Scheduler scheduler_;
  std::vector<PageNumber> landed_;  // ahead, since arrived() was last asked
  std::vector<PageNumber> arrived_;
  uint64_t sent_ns_ = 0;  // the step's demands
  bool is_beside_ = false;
  bool is_first_ = false;  // none of them has come
};

}  // namespace farpage::vtime
