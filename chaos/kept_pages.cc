#include "chaos/kept_pages.h"

#include <algorithm>

#include "chaos/replica_sets.h"

namespace farpage::chaos {
KeptPages::KeptPages(SimCluster& cluster, const Epoch& list)
    : cluster_(cluster), list_(list), marks_(list.members.size()), flips_(list.members.size()) {}

uint64_t KeptPages::evictions(size_t node) {
  return cluster_.node_runs(node) ? cluster_.node_service(node).status().evictions : 0;
}

KeptPages::Marks KeptPages::now() {
  Marks now = {marks_, flips_, 0};
  for (size_t node = 0; node < marks_.size(); ++node) now.nodes[node] += evictions(node);
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

// It may remove puts under way too. One that was never acknowledged may happen at any time.
void KeptPages::remove_sent(const PageKey& key) {
  ++pages_[key].removes;
}

void KeptPages::remove_ended(const PageKey& key, bool acknowledged) {
  Page& page = pages_[key];
  page.when_sent.reset();
  for (auto& [number, marks] : page.puts) marks.reset();
  if (acknowledged) --page.removes;
}

const KeptPages::Marks* KeptPages::put_at(const PageKey& key) const {
  const auto found = pages_.find(key);
  if (found == pages_.end() || !found->second.when_sent || found->second.removes > 0) {
    return nullptr;
  }
  return &*found->second.when_sent;
}

std::span<const Epoch> KeptPages::epochs_since(const Marks& put) const {
  if (cluster_.epochs() == nullptr) return {&list_, 1};
  return std::span(cluster_.epochs()->history()).subspan(put.epoch);
}

size_t KeptPages::keeps_from(size_t node, const Marks& put) {
  const std::span<const Epoch> epochs = epochs_since(put);
  const Member* member = epochs.back().find(list_.members[node].node);
  size_t from = epochs.size();
  if (!cluster_.node_runs(node) || member == nullptr) return from;
  const auto is_member = [member](const Epoch& epoch) {
    return std::ranges::find(epoch.members, *member) != epoch.members.end();
  };
  while (from > 0 && is_member(epochs[from - 1])) --from;
  const bool lost_nothing = from == 0 ? now().nodes[node] == put.nodes[node]
                                      : evictions(node) == 0 && flips_[node] == put.flips[node];
  return lost_nothing ? from : epochs.size();
}

bool KeptPages::must_be_there(const PageKey& key) {
  const Marks* put = put_at(key);
  return put != nullptr && has_keeper(list_, epochs_since(*put), key,
                                      [&](size_t node) { return keeps_from(node, *put) == 0; });
}

bool KeptPages::had_a_holder_throughout(const PageKey& key) {
  const Marks* put = put_at(key);
  if (put == nullptr) return false;
  const std::span<const Epoch> epochs = epochs_since(*put);
  std::vector<bool> had_one(epochs.size());
  for (size_t node = 0; node < marks_.size(); ++node) {
    for (size_t epoch = keeps_from(node, *put); epoch < epochs.size(); ++epoch) {
      if (holds(epochs[epoch], list_.members[node].node, key)) had_one[epoch] = true;
    }
  }
  return std::ranges::find(had_one, false) == had_one.end();
}

}  // namespace farpage::chaos
