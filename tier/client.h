#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"
#include "base/runtime.h"
#include "base/status.h"
#include "control/link.h"
#include "tier/fetch/lane.h"
#include "tier/push/push.h"
#include "tier/request/client_options.h"
#include "tier/request/page_request.h"
#include "tier/stats/landing_place.h"
#include "transport/fabric.h"
#include "transport/page_pool.h"

namespace farpage {

struct PutRequest {
  PageKey key;
  Slice source;  // lent until the Put is released
};

struct PutResult {
  // kOk: acknowledged: every fetch that starts from now on gets this version or a newer one, until
  // the page is removed or evicted. kTimeout: not acknowledged; it may be stored or not.
  // kExhausted: no slot became free in time; without node.evict no page makes room for another.
  // kUnavailable: the page's primary cannot be reached, or another node has become it meanwhile.
  // kInvalid: longer than the node's slots, not in host memory (copy the page there first), or the
  // node was told another list of nodes. kAborted: the bytes that arrived were not the bytes that
  // were sent.
  Code code = Code::kTimeout;
  Version version = 0;
};

struct PutState;
struct RemoveState;
struct Fleet;
class FleetLink;
struct View;

// Puts under way. Move-only. The destructor returns when nothing reads a source any more: writes
// that were late are waited for, up to `read_window` of a node that is silent. It must not outlive
// its client. Thread-safe.
class Put {
 public:
  Put(Put&&) noexcept = default;
  Put& operator=(Put&& other) noexcept;
  ~Put();

  bool done() const;
  // Blocks until done, which is by the deadline; one result a page.
  std::span<const PutResult> wait();
  // Of a page that was not acknowledged: which node or member was in the way, and why, in a
  // sentence. Empty if all were. After wait().
  std::string why() const;

  // Nothing reads a source any more; so it is unless the deadline passed while a source was being
  // written, or a node that reads sources in place has not answered. Looks after late writes: a
  // caller that asks, waits or puts sees them end.
  bool released() const;
  // Blocks until released or `deadline_ns`, and returns released().
  bool wait_released(uint64_t deadline_ns);

 private:
  friend class Client;
  Put(Runtime* runtime, std::shared_ptr<PutState> state);
  Runtime* runtime_;
  std::shared_ptr<PutState> state_;
};

class Remove {
 public:
  bool done() const;
  // Blocks until done or the deadline; how many of the keys had a page. Acknowledged like a put.
  Result<uint64_t> wait();

 private:
  friend class Client;
  Remove(Runtime* runtime, std::shared_ptr<RemoveState> state);
  Runtime* runtime_;
  std::shared_ptr<RemoveState> state_;
};

// An engine's connection to its memory nodes: the epoch, a view of each, which it keeps renewing,
// the page tables, and the ways for puts. Connects again by itself when a node restarts.
// Thread-safe; fetches go through lanes.
//
// `runtime`, `fabric`, `dialer` and what `fleet` names outlive the client, and the client its
// lanes.
class Client {
 public:
  // To one node that serves alone. Waits for its first hello.
  static Result<std::unique_ptr<Client>> connect(const ClientOptions& options, Runtime& runtime,
                                                 Fabric& fabric, ControlDialer& dialer);
  // To several. Waits until one of them has answered; the others are dialled when they are needed.
  static Result<std::unique_ptr<Client>> connect(const ClientOptions& options, Runtime& runtime,
                                                 Fabric& fabric, const Fleet& fleet);
  ~Client();

  Result<Lane> open_lane();
  // From a node that serves alone; refused over a backend that cannot push
  // (Capabilities::pushes).
  Result<PushLane> open_push_lane(const PushOptions& options = {});

  // The engine's pages, as destinations and sources. Must outlive the lanes that use it. Over shm,
  // a node of this user reads sources in place from the third put of the memory on, or soon after,
  // if all of it is a shared mapping of one file in /dev/shm, or of a memfd.
  Result<Region> register_memory(const MemoryRange& range);
  // Host memory to land in, registered. Must outlive the lanes that use it.
  Result<PagePool> make_pool(uint64_t page_bytes, uint32_t pages);

  // Copies the sources into this client's staging at each page's primary, and asks it to commit
  // them. Blocks until they are there, and no longer than the deadline: then what is not there is
  // kTimeout, and its source is lent until the Put is released. Sources that the primary reads in
  // place (register_memory) are not copied: they are lent until it has answered. A page whose
  // primary cannot be reached does not keep the others from being put.
  Put put(std::span<const PutRequest> requests, uint64_t deadline_ns);
  Remove remove(std::span<const PageKey> keys, uint64_t deadline_ns);

  // Of the first node that can be reached.
  Result<StatusReply> node_status(uint64_t deadline_ns);

  const Clock& clock() const;
  Runtime& runtime() const;
  const Capabilities& capabilities() const;
  uint64_t page_bytes() const;      // the longest page that the nodes take
  uint64_t location_bytes() const;  // of memory, for the page tables
  // Traffic of each path to the node; empty where the backend has but one, and knows no more of it
  // than capabilities() say.
  std::vector<PathUse> paths() const;
  uint64_t epoch() const;  // the number of the one whose members it uses; 0: none, or a node alone
  // There is a view of some node, and its lease has not ended; or the client rests, as nothing was
  // asked of it for `rest_ms`: it was reachable then.
  bool reachable() const;

  // Pages put so far.
  uint64_t puts_acknowledged() const;
  uint64_t puts_failed() const;
  // Pages that should have been put, and of which their caller got nothing to put.
  void count_puts_failed(uint64_t pages);
  // That a GPU has checked behind a copy, and those of them that the copy had spoiled.
  void count_copies_checked(uint64_t pages, uint64_t spoiled);
  // Whether payloads are checked (ClientOptions::verify).
  bool verifies() const;
  // That have landed for a GPU.
  void count_landed(LandingPlace place, uint64_t pages);
  // This client's counts and state: docs/metrics.md.
  void describe(MetricVisitor& visitor) const;

 private:
  static Result<std::unique_ptr<Client>> connect(const ClientOptions& options,
                                                 std::shared_ptr<FleetLink> fleet);
  explicit Client(std::shared_ptr<FleetLink> fleet);
  std::shared_ptr<View> any_view() const;

  std::shared_ptr<FleetLink> fleet_;
};

}  // namespace farpage
