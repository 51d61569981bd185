#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lab/live/step_plan.h"
#include "lab/vtime/wire.h"
#include "tier/ahead/prefetch_lane.h"
#include "transport/page_pool.h"

namespace farpage::live {

struct LaneWireOptions {
  uint64_t page_bytes = 0;
  uint64_t budget_pages = 0;    // that are near
  uint64_t step_pages = 0;      // that a step demands, at most
  uint64_t prefetch_pages = 0;  // that a plan names, at most
  uint64_t deadline_ns = 0;     // of each fetch
  prefetch::SchedulerOptions scheduler = {};
};

struct LiveCounts {
  std::array<uint64_t, kReasons> recompute = {};  // demanded pages, by Reason
  uint64_t wrong_bytes = 0;      // of all that was near, every byte of which is compared as it goes
  uint64_t lateness_max_ns = 0;  // of a demand's verdict
};

// A memory node, as an engine reaches it: by a PrefetchLane, with a step's demands in one fetch, in
// frames of the engine's own. A page ahead is copied to a place as it gets its room. A demanded
// page that does not come is made again. The contents prove themselves (page_content.h); each page
// was put once, as number kPutNumber. On one thread.
class LaneWire final : public vtime::Wire {
 public:
  static constexpr uint64_t kPutNumber = 1;
  // Lets time pass, until then at most, while nothing has come.
  using Idle = std::function<void(uint64_t until_ns)>;

  // `keys`: of all pages. All of them outlive it.
  static Result<std::unique_ptr<LaneWire>> open(Client& client, Fabric& fabric,
                                                std::span<const PageKey> keys,
                                                const LaneWireOptions& options, Idle idle);

  uint64_t now_ns() const override { return client_.clock().now_ns(); }

  State demand(PageNumber page, uint64_t step) override;
  void fetch(PageNumber page) override;
  void on_access(const prefetch::Access& access) override;
  void send() override;
  std::optional<Landed> next(uint64_t until_ns) override;

  void plan(std::span<const PageNumber> expected, uint64_t step) override;
  State state(PageNumber page) const override;
  uint64_t under_way() const override { return lane_.report().under_way; }
  std::span<const PageNumber> arrived() override;
  void hold(PageNumber page) override;
  void expire(PageNumber page) override { lane_.set_near({&keys_[page], 1}, true); }
  void evict(PageNumber page) override;
  prefetch::PrefetchAccount account() const override { return lane_.report().pages; }

  void make(PageNumber page) override;
  void keep(PageNumber page) override;
  void forget(PageNumber page) override;

  // Nothing more is demanded: looks at all that is near.
  const LiveCounts& end();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct PagePlace {
    uint32_t frame = kNone;
    uint32_t awaited = 0;    // so many times
    bool is_asked = false;   // and has no verdict
    bool is_joined = false;  // it was under way when it was asked for
    bool is_filled = false;
    bool has_left = false;  // the near memory, and may come again
  };
  // Forgotten, and not compared yet.
  struct Left {
    PageNumber page;
    uint32_t frame;
  };

  LaneWire(Client& client, PagePool pool, std::unique_ptr<StepPlan> plan, PrefetchLane lane,
           std::span<const PageKey> keys, const LaneWireOptions& options, Idle idle);

  void ask(PageNumber page);
  void place(PageNumber page);
  void drive();
  void settle();
  void settle(uint32_t index);
  void end_fetch();
  void compare(const Left& left);
  void compare_left();
  void compare_until(uint64_t free_frames);
  std::span<std::byte> bytes_of(uint32_t frame) const;

  const Client& client_;
  const std::span<const PageKey> keys_;
  const LaneWireOptions options_;
  const Idle idle_;
  PagePool pool_;
  std::vector<PageLease> frames_;
  std::vector<uint32_t> free_;
  std::deque<Left> left_;
  std::vector<PagePlace> places_;
  std::vector<PageNumber> named_;  // by a plan, and neither come nor given up
  std::vector<PageNumber> arrived_;
  std::deque<Landed> landed_;
  LiveCounts counts_;
  std::vector<ObservedAccess> observed_;
  std::unique_ptr<StepPlan> plan_;
  PrefetchLane lane_;  // after the plan that it asks for, and the frames

  // The step's demands:
  std::vector<PageNumber> asked_;
  std::vector<PageRequest> requests_;  // once they are sent
  std::vector<PageVerdict> verdicts_;
  std::vector<uint32_t> open_;    // without a verdict
  std::vector<uint32_t> parked_;  // frames that may still be written to
  uint64_t deadline_ns_ = 0;
  DemandFetch fetch_;
};

}  // namespace farpage::live
