#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "tier/fetch/page_copier.h"
#include "tier/fetch/recent_latency.h"
#include "tier/fetch/transfer_window.h"
#include "tier/link/node_session.h"
#include "tier/link/read_path.h"

namespace farpage {

// One node, as one lane reads from it.
struct LanePeer {
  explicit LanePeer(std::shared_ptr<NodeSession> of) : link(std::move(of)), path(link) {}

  // Whether its open path reads a run that the epoch names.
  bool is_of_epoch() const { return member && (any_run || path.view().incarnation == incarnation); }
  // Whether there is a view of the run that the epoch names, at this time.
  bool reachable(uint64_t now_ns) {
    return member && path.view_valid(now_ns) &&
           (any_run || path.newest_view()->incarnation == incarnation);
  }

  // Has use from now on: whether it is reachable, or may still be.
  bool is_in_reach(uint64_t now_ns) {
    if (!reachable(now_ns)) return is_coming(now_ns);
    link->use();
    return true;
  }
  // Not reachable, and has use from now on: whether the link's first view may still come. `now_ns`:
  // as above. What ends the coming is known before it ends; a link that goes to rest may begin it.
  bool is_coming(uint64_t now_ns) {
    link->start();
    return link->is_coming() || reachable(now_ns) || link->is_coming();
  }
  // ... or the first path.
  bool is_opening(uint64_t now_ns) {
    return is_coming(now_ns) && (link->is_coming() || path.is_new());
  }
  // Not in reach: whether the view of the run that the epoch names was lost a moment ago, and the
  // next one may be here at once.
  bool is_returning(uint64_t now_ns) const {
    const View* lost = path.newest_view();
    return member && lost != nullptr && (any_run || lost->incarnation == incarnation) &&
           link->is_returning(now_ns);
  }

  std::shared_ptr<NodeSession> link;
  bool member = true;        // of the epoch
  bool any_run = true;       // membership is a list: whatever run says hello
  uint64_t incarnation = 0;  // otherwise the run that may be read
  uint32_t attempts = 0;     // under way here
  uint64_t bytes = 0;        // that these may land
  uint32_t held = 0;         // ... of pages that have their verdict
  uint64_t held_bytes = 0;   // that those may still land
  uint32_t asked = 0;        // operations of questions under way here
  uint32_t slower = 0;       // pages whose recompute was faster
  // As its path's node keeps slots: the bytes from one header to the next. Payloads of up to
  // longest_alone bytes are not read with their header, or straight from `source`.
  uint64_t header_stride = 0;
  uint64_t longest_alone = 0;
  std::shared_ptr<CopySource> source;     // its path's pool, for the lane's copier
  const std::byte* headers_at = nullptr;  // ... and the headers, while the path is open
  uint64_t asked_ns = 0;                  // when it was asked, while nothing was under way here
  uint64_t heard_ns = 0;                  // when an operation ended here last
  bool silent = false;                    // has not answered for much longer than most take
  bool busy = false;                      // among those that have something in flight
  uint32_t written = 0;                   // operations that are to be posted
  RecentLatency latency;                  // of its operations
  TransferWindow window;                  // how many bytes may be under way here
  ReadPath path;                          // last: its operations end first
};

}  // namespace farpage
