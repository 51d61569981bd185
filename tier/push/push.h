#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "tier/request/page_request.h"
#include "transport/counter.h"
#include "transport/page_pool.h"

namespace farpage {

class PushEngine;
struct PushState;

struct PushOptions {
  uint32_t pages = 256;       // places of the landing: what may be on its way, or held, at one time
  uint32_t group_pages = 16;  // the node says after so many that they are there
};

// One page of a push.
struct PushedPage {
  PageKey key;
  Version min_version = 0;     // nothing older is acceptable; 0: whatever was put last
  uint64_t payload_bytes = 0;  // 0: however long it is
};

// One push under way, or its pages. Move-only. Must not outlive its lane, and shares its thread.
// The requests and the verdicts are lent to it until it is done. The destructor gives a page that
// has no verdict yet recompute(stalled), and every place back: one that the node may still write
// stays in quarantine.
class Push {
 public:
  Push() = default;
  Push(Push&& other) noexcept;
  Push& operator=(Push&& other) noexcept;
  ~Push();

  // Every page has its verdict.
  bool done() const;
  // Drives the lane until it is done; that is by its deadline.
  void wait();

  // Where a page lies that is ready, until the push goes; as long as it was when it was checked.
  std::span<const std::byte> payload(size_t page) const;
  // The place of a page that is ready, for as long as the caller wants it; once for each page. The
  // payload comes 64 bytes after its start and is as long as payload() has said: a faulty node may
  // still write the header before it. Must not outlive the lane.
  PageLease take(size_t page);

  // Counts the pages: ok for ready, failed for recompute. As Fetch::counter().
  CompletionCounter& counter();

 private:
  friend class PushLane;
  Push(PushEngine* engine, PushState* state) : engine_(engine), state_(state) {}

  PushEngine* engine_ = nullptr;
  PushState* state_ = nullptr;
};

struct PushStats {
  uint64_t pages_ready = 0;
  uint64_t pages_recompute = 0;
  uint64_t requests = 0;  // sent to the node
  uint64_t free_places = 0;
  uint64_t quarantined_places = 0;
  uint64_t landings_ended = 0;  // given up with what was on its way to them
};

// Memory of one thread that the node writes pages into: one request and one wait for many of them,
// and none of a READ's way there and back. A page that was pushed is checked as one that was
// fetched; who wants a second look fetches it. A lane belongs to the thread that uses it. Made by
// Client::open_push_lane; not over a backend whose Capabilities::pushes is false.
//
// A place whose page had not come by its deadline is in quarantine until the node has said that it
// is done with it. When quarantine leaves too few, the landing is given up with its connection, and
// another one is made: memory of it that the caller holds stays as it is.
//
// A push allocates: the request with its list of pages, the control message, the node's answer with
// a code for each page. The state of a push is allocated when more pushes are under way than ever
// before, and reused.
class PushLane {
 public:
  PushLane(PushLane&&) noexcept;
  PushLane& operator=(PushLane&&) noexcept;
  ~PushLane();

  // Asks for these pages, at most as many as the lane has places: one verdict for each by
  // `deadline_ns` (on Client's clock). Never fails: what does not come is `recompute`. Waits,
  // within the deadline, for places that are held.
  Push push(std::span<const PushedPage> requests, std::span<PageVerdict> verdicts,
            uint64_t deadline_ns);

  // Does what can be done without waiting; for those who watch a push's counter.
  void progress();
  // Lets time pass until something may have come, or until then.
  void wait(uint64_t until_ns);

  PushStats stats() const;

 private:
  friend class Client;
  explicit PushLane(std::unique_ptr<PushEngine> engine);
  std::unique_ptr<PushEngine> engine_;
};

}  // namespace farpage
