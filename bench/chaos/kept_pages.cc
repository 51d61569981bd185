#include "bench/chaos/kept_pages.h"

namespace farpage::chaos {

KeptPages::KeptPages(SimCluster& cluster, const Epoch& list)
    : cluster_(cluster), placement_(list), marks_(list.members.size()) {}

KeptPages::Marks KeptPages::now() {
  Marks marks = marks_;
  for (size_t node = 0; node < marks.size(); ++node) {
    if (cluster_.node_runs(node)) marks[node] += cluster_.node_service(node).status().evictions;
  }
  return marks;
}

void KeptPages::put_sent(const PageKey& key, uint64_t number) {
  pages_[key].puts.emplace(number, now());
}

void KeptPages::put_acknowledged(const PageKey& key, uint64_t number) {
  Page& page = pages_[key];
  page.when_sent = page.puts.at(number);
  page.puts.erase(number);
}

// Whatever is under way may be removed by it too. One that was never acknowledged may happen at any
// time.
void KeptPages::remove_sent(const PageKey& key) {
  ++pages_[key].removes;
}

void KeptPages::remove_ended(const PageKey& key, bool acknowledged) {
  Page& page = pages_[key];
  page.when_sent.clear();
  for (auto& [number, marks] : page.puts) marks.clear();
  if (acknowledged) --page.removes;
}

bool KeptPages::must_be_there(const PageKey& key) {
  const Page& page = pages_[key];
  if (page.when_sent.empty() || page.removes > 0) return false;
  const Marks marks = now();
  const ReplicaSet set = placement_.replicas(key);
  for (size_t rank = 0; rank < set.size(); ++rank) {
    const size_t node = set[rank];
    if (cluster_.node_runs(node) && marks[node] == page.when_sent[node]) return true;
  }
  return false;
}

}  // namespace farpage::chaos
