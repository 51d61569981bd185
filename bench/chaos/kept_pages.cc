#include "bench/chaos/kept_pages.h"

#include <algorithm>

#include "pagetable/placement.h"

namespace farpage::chaos {
namespace {

bool holds(const Epoch& epoch, const Member& member, const PageKey& key) {
  const auto found = std::ranges::find(epoch.members, member);
  if (found == epoch.members.end()) return false;
  return Placement(epoch).replicas(key).contains(
      static_cast<size_t>(found - epoch.members.begin()));
}

}  // namespace

KeptPages::KeptPages(SimCluster& cluster, const Epoch& list)
    : cluster_(cluster), list_(list), marks_(list.members.size()) {}

KeptPages::Marks KeptPages::now() {
  Marks now = {marks_, 0};
  for (size_t node = 0; node < marks_.size(); ++node) {
    if (cluster_.node_runs(node)) {
      now.nodes[node] += cluster_.node_service(node).status().evictions;
    }
  }
  if (cluster_.epochs() != nullptr) now.epoch = cluster_.epochs()->history().size() - 1;
  return now;
}

void KeptPages::put_sent(const PageKey& key, uint64_t number) {
  pages_[key].puts.emplace(number, now());
}

void KeptPages::put_acknowledged(const PageKey& key, uint64_t number, Version version) {
  Page& page = pages_[key];
  page.when_sent = page.puts.at(number);
  if (cluster_.epochs() != nullptr && page.when_sent) {
    const uint64_t first = cluster_.epochs()->history().front().number;
    page.when_sent->epoch = std::min(page.when_sent->epoch, version_epoch(version) - first);
  }
  page.puts.erase(number);
}

// Whatever is under way may be removed by it too. One that was never acknowledged may happen at any
// time.
void KeptPages::remove_sent(const PageKey& key) {
  ++pages_[key].removes;
}

void KeptPages::remove_ended(const PageKey& key, bool acknowledged) {
  Page& page = pages_[key];
  page.when_sent.reset();
  for (auto& [number, marks] : page.puts) marks.reset();
  if (acknowledged) --page.removes;
}

bool KeptPages::must_be_there(const PageKey& key) {
  const Page& page = pages_[key];
  if (!page.when_sent || page.removes > 0) return false;
  const Marks marks = now();
  for (size_t node = 0; node < marks_.size(); ++node) {
    if (cluster_.node_runs(node) && marks.nodes[node] == page.when_sent->nodes[node] &&
        keeps(node, key, *page.when_sent)) {
      return true;
    }
  }
  return false;
}

// In every epoch since, and as the same run.
bool KeptPages::keeps(size_t node, const PageKey& key, const Marks& when_sent) {
  if (cluster_.epochs() == nullptr) return holds(list_, list_.members[node], key);
  const auto& history = cluster_.epochs()->history();
  const Member* member = history[when_sent.epoch].find(list_.members[node].node);
  return member != nullptr &&
         std::all_of(history.begin() + static_cast<ptrdiff_t>(when_sent.epoch), history.end(),
                     [&](const Epoch& epoch) { return holds(epoch, *member, key); });
}

}  // namespace farpage::chaos
