#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/units.h"
#include "control/messages.h"
#include "node/store/page_store.h"
#include "transport/fabric.h"

namespace farpage {

// One client's landing as the node reaches it, and what waits to be written there. Pages go out as
// they lie in their slots, header and payload in one write. One thread at a time.
class PushPath {
 public:
  // Pages that may wait at one time: twice the most of one request.
  static constexpr size_t kMostQueued = 2 * kMaxPushPages;
  static constexpr uint64_t kMostQueuedBytes = 80 * kKiB;  // that they take

  // Counts into `counts`, which a node's paths share, and which outlives them.
  // `places`: how many pages the landing has room for.
  PushPath(std::unique_ptr<Initiator> channel, const RemoteRegion& landing, uint64_t places,
           PageStore& store, PushCounts& counts);

  // Queues those of the pages that are there, each group followed by its immediate; a code for each
  // page. Refuses the whole request where any of it is wrong, or too much waits already.
  Result<PushReply> enqueue(const PushRequest& request, uint64_t deadline_ns);

  // Posts what waits and takes what has ended: how many operations that were. Never blocks.
  Result<size_t> turn(uint64_t now_ns);

  bool idle() const { return queue_.empty() && under_way_.empty(); }

  // For who ends it, which may block.
  std::unique_ptr<Initiator> take_channel() { return std::move(channel_); }

 private:
  struct Write {
    uint64_t deadline_ns;
    uint32_t slot;
    uint32_t place;
    uint32_t payload_bytes;  // 0: the immediate alone
    uint32_t immediate;
    bool has_immediate;
  };
  struct Posted {
    uint32_t payload_bytes;  // 0: the immediate alone
    bool ended;
  };

  static_assert(kMostQueued * (sizeof(Write) + sizeof(Posted)) <= kMostQueuedBytes);

  Result<void> check(const PushRequest& request) const;
  void write(const Write& write);
  Result<void> post(uint64_t now_ns);
  bool ended(const Completion& completion);

  std::unique_ptr<Initiator> channel_;
  RemoteRegion landing_;
  PageStore& store_;
  PushCounts& counts_;
  const uint64_t places_;
  std::deque<Write> queue_;
  std::deque<Posted> under_way_;  // from the first that has not ended on
  uint64_t first_under_way_ = 0;  // its tag
  uint64_t moved_ns_ = 0;         // when something under way last ended, or was the first to be
};

}  // namespace farpage
