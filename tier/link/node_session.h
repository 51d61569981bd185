#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/runtime.h"
#include "base/status.h"
#include "control/link.h"
#include "pagetable/epoch.h"
#include "pagetable/known_run.h"
#include "pagetable/location_cache.h"
#include "tier/link/breaker.h"
#include "tier/link/client_sources.h"
#include "tier/link/hello_check.h"
#include "tier/link/page_reports.h"
#include "tier/link/published.h"
#include "tier/link/view.h"
#include "tier/request/client_options.h"
#include "tier/stats/lane_counters.h"
#include "transport/fabric.h"
#include "transport/fabric_gate.h"

namespace farpage {

// Keeps a view of one node: dials, says hello, renews the lease, and begins again when the
// connection or the node is lost: said by the link, or known by a lease that has ended.
//
//   unused ──start──► dialing ──hello──► opening ──staging──► serving ──nobody uses it──► unused
//                        ▲──────(after a pause that grows)──── lost or failed
//
// Reconnecting makes a new View; the old one stays usable until its lease ends.
class NodeSession : public std::enable_shared_from_this<NodeSession> {
 public:
  // `counters`: whose verdicts are told to the node, with the renewals.
  // `sources`: what the node is told of, if it reads clients' memory in place.
  // `gate`: the fabric's; its owner closes it before, for this link's work may last.
  NodeSession(const ClientOptions& options, Runtime& runtime, Fabric& fabric,
              std::shared_ptr<FabricGate> gate, ControlDialer& dialer, HelloExpectations terms = {},
              std::shared_ptr<ClientCounters> counters = std::make_shared<ClientCounters>(),
              std::shared_ptr<ClientSources> sources = std::make_shared<ClientSources>());

  // Somebody has use for the node: dials from now on, and does not wait. True: it was unused. Any
  // thread; wait-free once it is not. Keeps it from its rest, as use() does.
  bool start();
  // Something is asked of the node. Once nobody has for `rest_ms`, the link is unused again: it
  // hangs up, and its session at the node ends. Any thread; wait-free.
  void use() {
    if (!used_.load(std::memory_order_relaxed)) used_.store(true, std::memory_order_relaxed);
  }
  // Between the two the link does not rest: LinkUse.
  void begin_use() { under_way_.fetch_add(1, std::memory_order_relaxed); }
  void end_use() { under_way_.fetch_sub(1, std::memory_order_relaxed); }
  bool is_unused() const { return phase_.load(std::memory_order_acquire) == Phase::kUnused; }
  // The first view is on its way: the link was unused, and no dial has failed since. The runtime
  // tells of its end, and what has ended it is known before.
  bool is_coming() const { return phase_.load(std::memory_order_acquire) == Phase::kComing; }
  // Where no view is valid any more: the next one may be here at once, as no dial has failed since
  // the last one was lost, and that is less than half a second ago. True before, too: that a lease
  // has ended a lane may see sooner than the runtime. Any thread; wait-free.
  bool is_returning(uint64_t now_ns) const {
    return now_ns < returning_until_ns_.load(std::memory_order_acquire);
  }
  // Of the last view that there was; 0: there was none. Any thread.
  uint64_t page_bytes() const { return page_bytes_.load(std::memory_order_acquire); }
  // Starts to dial, and waits for the first view.
  Result<void> connect();
  // Ends the view and dials no more. Blocks for nothing that is under way; may be called again.
  void stop();

  // Why there is no view.
  std::optional<Error> error() const;
  // The same in a sentence with the node's name; empty: nothing is known to be wrong.
  std::string why_unreached() const;
  // ... for a reason that time does not mend.
  bool refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }
  // For sentences: "the memory node", or with its number.
  std::string name() const;

  // Null: there is none. Lanes take it without waiting.
  const Published<View>& published() const { return view_; }
  std::shared_ptr<View> view() const { return view_.get(); }

  // The view's staging is of no more use, though its link has not noticed: dials again for a new
  // view. Once for each; reads under its lease go on. Any thread.
  void give_up(const std::shared_ptr<View>& view);

  // Tells the node of sources that it has not been told of, and that one has gone. Any thread.
  void offer_sources();
  void withdraw_source(uint32_t source);

  const ClientOptions& options() const { return options_; }
  Runtime& runtime() { return runtime_; }
  Fabric& fabric() { return fabric_; }
  // For work that is off the runtime's thread, where the fabric alone could be gone.
  const std::shared_ptr<FabricGate>& gate() const { return gate_; }
  LocationCache& locations() { return *locations_; }
  Breaker& breaker() { return breaker_; }
  NodeId peer() const { return terms_.peer; }

  // The page read there was damaged: the node looks at it again, and says which epochs it knows of.
  // Each page once a second, and 256 pages a second. Any thread; wait-free for what is beyond.
  void report(const PageKey& key);
  uint64_t reports() const { return reports_.load(std::memory_order_relaxed); }
  // Of the versions that this node has told of so far; 0: it has never said hello. Wait-free.
  uint64_t newest_epoch() const { return newest_epoch_.load(std::memory_order_relaxed); }
  const std::shared_ptr<ClientCounters>& counters() const { return counters_; }

 private:
  enum class Phase : uint8_t { kUnused, kComing, kTried };

  void dial(uint64_t delay_ns);
  void say_hello(const std::shared_ptr<ControlLink>& link);
  void greeted(uint64_t sent_ns, Result<Reply> reply);
  void drop_greeting(const std::shared_ptr<ControlLink>& link);
  Result<std::shared_ptr<View>> make_view(const std::shared_ptr<ControlLink>& link,
                                          uint64_t sent_ns, const HelloReply& reply);
  void send_reports();
  void hear_of(uint64_t epoch);
  void open_staging(const std::shared_ptr<View>& view, HelloReply reply);
  void opened(const std::shared_ptr<View>& view, const Result<std::shared_ptr<Staging>>& staging);
  void watch_lease(const std::weak_ptr<View>& view);
  bool end_if_held(View& view);
  void renew(const std::weak_ptr<View>& view);
  bool goes_to_rest(const std::shared_ptr<View>& view);
  void rest(View& view);
  VerdictCounts verdicts_of(View& view);
  void say_goodbye();
  void failed(Error error);
  void dial_again(Error error);
  void lost(const std::shared_ptr<View>& view);

  const ClientOptions options_;
  Runtime& runtime_;
  Fabric& fabric_;
  const std::string backend_;  // the fabric's
  const std::shared_ptr<FabricGate> gate_;
  ControlDialer& dialer_;
  const HelloExpectations terms_;
  Breaker breaker_;
  std::optional<LocationCache> locations_;  // made with the first view; fixed from then on

  const std::shared_ptr<ClientCounters> counters_;

  const std::shared_ptr<ClientSources> sources_;

  Published<View> view_;                   // replaced under the lock
  mutable std::mutex mutex_;               // of what follows; never taken by a lane
  std::shared_ptr<ControlLink> greeting_;  // waits for the answer to its hello
  std::shared_ptr<View> opening_;          // waits for its staging
  std::optional<Error> last_error_;
  bool refused_ = false;  // by the node, for a reason that time does not mend
  KnownRun known_run_;    // of the last view, where no register says the epochs
  uint64_t tell_again_ns_ = 0;
  bool dialing_ = true;  // or unused; at most one attempt to connect is under way
  bool stopped_ = false;

  std::atomic<Phase> phase_{Phase::kUnused};
  std::atomic<bool> used_{false};  // since the last renewal
  std::atomic<uint64_t> under_way_{0};
  std::atomic<uint64_t> returning_until_ns_{0};  // kNever: the view is not known to be lost
  std::atomic<uint64_t> page_bytes_{0};
  uint64_t pause_ns_ = 0;  // before the next dial; this and what follows: on the runtime only
  uint64_t used_ns_ = 0;   // when use of it was seen last
  ClockGap hello_gap_;     // when the last hello was sent
  uint64_t renewed_fetches_ = 0;               // as of the last renewal
  std::unique_ptr<PageReports> page_reports_;  // made with the first view, as the locations
  std::atomic<bool> reporting_{false};         // a callback that takes them is under way
  std::atomic<uint64_t> reports_{0};
  std::atomic<uint64_t> newest_epoch_{0};
};

}  // namespace farpage
