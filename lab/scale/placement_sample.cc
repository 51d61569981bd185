#include "lab/scale/placement_sample.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <thread>

#include "base/check.h"
#include "base/random.h"
#include "pagetable/placement.h"

namespace farpage {
namespace {

void add(std::vector<uint64_t>& to, const std::vector<uint64_t>& from) {
  std::ranges::transform(to, from, to.begin(), std::plus<>());
}

// An epoch without its first nodes, which are `lost`.
struct Without {
  explicit Without(const Epoch& before, uint64_t lost)
      : count(lost), epoch(remaining(before, lost)) {}

  static Epoch remaining(const Epoch& before, uint64_t lost) {
    Epoch after = before;
    after.members.erase(after.members.begin(),
                        after.members.begin() + static_cast<ptrdiff_t>(lost));
    ++after.number;
    after.set_replicas(before.replicas);
    return after;
  }

  uint64_t count;
  Epoch epoch;
  Placement placement{epoch};
};

void count_loss(const Without& after, const PageKey& key, const ReplicaSet& before, Loss& loss) {
  uint64_t gone = 0;
  size_t left = 0;  // the first that still holds it
  for (size_t rank = before.size(); rank-- > 0;) {
    if (before[rank] < after.count) {
      ++gone;
    } else {
      left = before[rank];
    }
  }
  if (gone == 0) return;
  ++loss.keys_touched;
  if (gone == before.size()) {
    ++loss.keys_gone;
    return;
  }
  const ReplicaSet now = after.placement.replicas(key);
  for (size_t rank = 0; rank < now.size(); ++rank) {
    const size_t place = now[rank] + after.count;
    if (before.contains(place)) continue;
    ++loss.copies_to_make;
    ++loss.received[place];
    ++loss.sent[left];
  }
}

PlacementSample empty_sample(const Epoch& epoch, const std::vector<Without>& losses) {
  PlacementSample sample;
  sample.held.resize(epoch.members.size());
  sample.primaries.resize(epoch.members.size());
  for (const Without& without : losses) {
    Loss& loss = sample.losses.emplace_back();
    for (size_t place = 0; place < without.count; ++place) {
      loss.nodes.push_back(epoch.members[place].node);
    }
    loss.received.resize(epoch.members.size());
    loss.sent.resize(epoch.members.size());
  }
  return sample;
}

void draw(const Epoch& epoch, const std::vector<Without>& losses, uint64_t keys, uint64_t seed,
          PlacementSample& sample) {
  const Placement placement(epoch);
  Random random(seed);
  const auto begun = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < keys; ++i) {
    const uint64_t low = random.next();
    const PageKey key = {low, random.next()};
    const ReplicaSet set = placement.replicas(key);
    ++sample.primaries[set.primary()];
    for (size_t rank = 0; rank < set.size(); ++rank) ++sample.held[set[rank]];
    for (size_t loss = 0; loss < losses.size(); ++loss) {
      count_loss(losses[loss], key, set, sample.losses[loss]);
    }
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
  sample.keys = keys;
  sample.ns_per_lookup = took.count() / static_cast<double>(std::max<uint64_t>(keys, 1));
}

void merge(PlacementSample& sum, const PlacementSample& part) {
  sum.keys += part.keys;
  sum.ns_per_lookup = std::max(sum.ns_per_lookup, part.ns_per_lookup);
  add(sum.held, part.held);
  add(sum.primaries, part.primaries);
  for (size_t i = 0; i < sum.losses.size(); ++i) {
    sum.losses[i].keys_touched += part.losses[i].keys_touched;
    sum.losses[i].keys_gone += part.losses[i].keys_gone;
    sum.losses[i].copies_to_make += part.losses[i].copies_to_make;
    add(sum.losses[i].received, part.losses[i].received);
    add(sum.losses[i].sent, part.losses[i].sent);
  }
}

}  // namespace

Epoch scale_epoch(uint64_t nodes, uint64_t replicas, uint64_t page_bytes, uint64_t seed) {
  Epoch epoch = {
      .number = 1, .replicas = replicas, .seed = seed, .page_bytes = page_bytes, .members = {}};
  for (uint64_t node = 0; node < nodes; ++node) {
    epoch.members.push_back({node_id("n" + std::to_string(node)), 0});
  }
  epoch.give_slots();
  return epoch;
}

PlacementSample sample_placement(const Epoch& epoch, uint64_t keys, uint64_t seed,
                                 const std::vector<uint64_t>& losses, uint64_t threads) {
  std::vector<Without> without;
  for (const uint64_t lost : losses) {
    FARPAGE_CHECK(lost + epoch.replicas < epoch.members.size());
    without.emplace_back(epoch, lost);
  }
  std::vector<PlacementSample> parts(threads, empty_sample(epoch, without));
  std::vector<std::thread> running;
  for (uint64_t i = 0; i < threads; ++i) {
    const uint64_t share = keys / threads + (i < keys % threads ? 1 : 0);
    running.emplace_back([&epoch, &without, &part = parts[i], share, seed, i] {
      draw(epoch, without, share, Random::mix(seed ^ Random::mix(i + 1)), part);
    });
  }
  for (std::thread& thread : running) thread.join();
  PlacementSample sum = empty_sample(epoch, without);
  for (const PlacementSample& part : parts) merge(sum, part);
  return sum;
}

Evenness evenness(const std::vector<uint64_t>& counts, uint64_t at_keys) {
  constexpr double kDeviations = 5;  // one in three million nodes is beyond it
  Evenness result;
  const double cells = static_cast<double>(counts.size());
  result.mean = static_cast<double>(std::reduce(counts.begin(), counts.end())) / cells;
  const auto [least, most] = std::ranges::minmax(counts);
  result.largest = static_cast<double>(most) / result.mean;
  result.smallest = static_cast<double>(least) / result.mean;
  double squares = 0;
  for (const uint64_t count : counts) {
    squares += std::pow(static_cast<double>(count) / result.mean - 1, 2);
  }
  result.deviation = std::sqrt(squares / cells);
  result.chance = std::sqrt((1 - 1 / cells) / result.mean);
  result.largest_at_most = result.largest + kDeviations * std::sqrt(1 / result.mean) +
                           kDeviations / std::sqrt(static_cast<double>(at_keys));
  return result;
}

double expected_largest(double mean, uint64_t cells) {
  return 1 + std::sqrt(2 * std::log(static_cast<double>(cells)) / mean);
}

}  // namespace farpage
