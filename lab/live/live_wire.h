#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lab/vtime/wire.h"
#include "tier/ahead/page_fetches.h"
#include "tier/client.h"
#include "transport/page_pool.h"

namespace farpage::live {

struct LiveWireOptions {
  uint64_t page_bytes = 0;
  uint64_t step_pages = 0;   // that a step demands, at most
  uint32_t most_ahead = 32;  // pages fetched ahead at a time
  uint64_t deadline_ns = 0;  // of each fetch
};

struct LiveCounts {
  std::array<uint64_t, kReasons> recompute = {};  // demanded pages, by Reason
  uint64_t wrong_bytes = 0;      // of all that was near, every byte of which is compared as it goes
  uint64_t lateness_max_ns = 0;  // of a demand's verdict
};

// A memory node, over two lanes of a client: one for demands, one for what is fetched ahead. What
// is demanded and does not come is made again. The contents prove themselves (page_content.h); each
// page was put once, as number kPutNumber. On one thread.
class LiveWire final : public vtime::Wire {
 public:
  static constexpr uint64_t kPutNumber = 1;
  // Lets time pass, until then at most, while nothing has come.
  using Idle = std::function<void(uint64_t until_ns)>;

  // How many frames it needs to have so many pages near, and as many more as may come ahead.
  static uint64_t frames(uint64_t budget_pages, const LiveWireOptions& options) {
    return budget_pages + budget_pages / 2 + 1 + options.most_ahead + 4 * options.step_pages;
  }

  // `keys`: of all pages. All of the pool's pages are its frames. All of them outlive it.
  LiveWire(const Client& client, Lane& demands, Lane& ahead, PagePool& pool,
           std::span<const PageKey> keys, const LiveWireOptions& options, Idle idle);

  bool begin(PageNumber page) override;
  uint64_t now_ns() const override { return client_.clock().now_ns(); }
  void demand(PageNumber page) override;
  void send() override;
  std::optional<Landed> next(uint64_t until_ns) override;
  void make(PageNumber page) override;
  void keep(PageNumber) override {}
  void forget(PageNumber page) override;

  // Nothing more is demanded: waits for what was begun, and looks at all that is near.
  const LiveCounts& end();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct PagePlace {
    uint32_t frame = kNone;
    uint32_t demands = 0;  // of it that wait
  };
  // One fetch of what was demanded at a time.
  struct Batch {
    std::vector<PageNumber> pages;
    std::vector<PageRequest> requests;
    std::vector<PageVerdict> verdicts;
    std::vector<uint32_t> open;    // pages whose verdict was not told
    std::vector<uint32_t> parked;  // frames that may still be written to
    uint64_t deadline_ns = 0;
    Fetch fetch;
  };

  // Forgotten, and not compared yet.
  struct Left {
    PageNumber page;
    uint32_t frame;
  };

  void place(PageNumber page);
  void drive();
  void drive(Batch& batch);
  void settle(Batch& batch, uint32_t index);
  void compare(const Left& left);
  void compare_left();
  void compare_until(uint64_t free_frames);
  std::span<std::byte> bytes_of(uint32_t frame) const;

  const Client& client_;
  Lane& demands_;
  const std::span<const PageKey> keys_;
  const LiveWireOptions options_;
  const Idle idle_;
  std::vector<PageLease> frames_;
  std::vector<uint32_t> free_;
  std::deque<Left> left_;
  std::vector<PagePlace> places_;
  std::vector<std::unique_ptr<Batch>> batches_;  // under way
  std::vector<std::unique_ptr<Batch>> spare_;
  std::unique_ptr<Batch> next_batch_;
  PageFetches ahead_;
  std::deque<Landed> landed_;
  LiveCounts counts_;
};

}  // namespace farpage::live
