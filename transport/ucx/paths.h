#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "transport/fabric.h"

namespace farpage::ucx {

// One way that an endpoint has to its peer.
struct UcxLane {
  unsigned index = 0;
  std::string name;               // "posix/memory", "rc_verbs/mlx5_0:1"
  unsigned peer_domain = 0;       // the peer's memory domain that it reaches
  bool reads_itself = false;      // the transport reads and writes without the peer's CPU
  bool carries_messages = false;  // what UCX emulates goes this way

  std::string transport() const { return name.substr(0, name.find('/')); }
  bool is_shared_memory() const { return transport() == "posix" || transport() == "sysv"; }
};

// How an endpoint reaches its peer. UCX 1.13 has no call that tells; ucp_ep_print_info does: it
// names the transfers that are the transport's own ("get[0]"), and all else is emulated. A name
// that is not understood here counts as emulated.
class UcxLanes {
 public:
  explicit UcxLanes(ucp_ep_h endpoint);
  explicit UcxLanes(const std::string& printed);

  const std::vector<UcxLane>& all() const { return lanes_; }
  // The one that reads a region with a key for these of the peer's memory domains; nullptr: the
  // peer's CPU would answer.
  const UcxLane* reader(uint64_t domains) const;
  std::string emulated_name() const;

 private:
  std::vector<UcxLane> lanes_;
};

// The fabric's capabilities, as it learns them from its connections. Thread-safe.
class PathBook {
 public:
  explicit PathBook(bool allow_emulated);

  bool allow_emulated() const { return allow_emulated_; }
  void note(const std::string& path, bool one_sided);
  // Stays valid, and as it is, as long as the book.
  const Capabilities& current() const { return *current_.load(std::memory_order_acquire); }

 private:
  struct Page {
    std::string path;
    Capabilities capabilities;
  };
  void publish(const std::string& path, bool one_sided);

  const bool allow_emulated_;
  std::mutex mutex_;
  std::set<std::string> seen_;
  bool one_sided_ = true;
  std::deque<Page> pages_;
  std::atomic<const Capabilities*> current_{nullptr};
};

}  // namespace farpage::ucx
