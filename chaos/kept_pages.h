#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "pagetable/epoch.h"
#include "sim/sim_cluster.h"

namespace farpage::chaos {

// Which acknowledged pages must still be there: put at a time since which some node of those that
// hold the page in every epoch was up, has evicted nothing and had no bit flipped, and no client
// has asked to remove it. The first of these epochs is the one in which the put was acknowledged,
// which may be older than the register's: a primary that has not heard of the newest acknowledges
// for `view_lease`. Nodes report their evictions in their status; this class caused every other
// loss.
class KeptPages {
 public:
  KeptPages(SimCluster& cluster, const Epoch& list);

  void put_sent(const PageKey& key, uint64_t number);
  void put_acknowledged(const PageKey& key, uint64_t number, Version version);
  void remove_sent(const PageKey& key);
  void remove_ended(const PageKey& key, bool acknowledged);
  // Before it does. `leaves_pages`: to its next run, which is to serve them all.
  void node_ends(size_t node, bool leaves_pages) {
    marks_[node] += leaves_pages ? evictions(node) : kMoreThanEvictions;
  }
  void flipped_at_rest(size_t node) {
    marks_[node] += kMoreThanEvictions;
    ++flips_[node];
  }

  bool must_be_there(const PageKey& key);
  // Weaker: in every epoch since the put some node of the page's set, not always the same one, was
  // one that is still up as the same run and has evicted nothing and had no bit flipped. Such a
  // page is lost all the same where an epoch begins before the fills of the one before have ended.
  bool had_a_holder_throughout(const PageKey& key);

 private:
  // Of each node, how often something has happened that may cost pages. A run's evictions count
  // from 0 again. And which epoch it was.
  struct Marks {
    std::vector<uint64_t> nodes;
    std::vector<uint64_t> flips;
    size_t epoch = 0;
  };
  static constexpr uint64_t kMoreThanEvictions = uint64_t{1} << 32;
  struct Page {
    uint64_t removes = 0;            // sent, and not acknowledged
    std::optional<Marks> when_sent;  // of the last acknowledged put; nothing: it need not be there
    std::unordered_map<uint64_t, std::optional<Marks>> puts;  // under way
  };

  uint64_t evictions(size_t node);
  Marks now();
  // Of the last acknowledged put; null: a client has asked to remove it since.
  const Marks* put_at(const PageKey& key) const;
  std::span<const Epoch> epochs_since(const Marks& put) const;
  // Of the epochs since the put, the first from which on the run that there is now has been a
  // member and has lost nothing; past the last: it is none.
  size_t keeps_from(size_t node, const Marks& put);

  SimCluster& cluster_;
  const Epoch list_;
  std::vector<uint64_t> marks_;
  std::vector<uint64_t> flips_;
  std::unordered_map<PageKey, Page> pages_;
};

}  // namespace farpage::chaos
