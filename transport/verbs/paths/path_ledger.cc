#include "transport/verbs/paths/path_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <tuple>

#include "transport/verbs/paths/port_files.h"

namespace farpage::verbs {
namespace {

void add(PathUse& sum, const PathCounters& counters) {
  sum.reads += counters.reads.value();
  sum.read_bytes += counters.read_bytes.value();
  sum.writes += counters.writes.value();
  sum.write_bytes += counters.write_bytes.value();
  sum.broken += counters.broken.value();
}

}  // namespace

// Without the peer's port, which is another one with each run of it.
PathLedger::Path& PathLedger::path(size_t device, const Endpoint& to) {
  const bool known = device < devices_->size();
  const std::string name =
      fmt::format("{} -> {}", known ? (*devices_)[device].label : "any device", to.host());
  if (!paths_.contains(name)) make_room();
  Path& found = paths_[name];
  found.ended.path = name;
  found.device = device;
  found.heard_of = ++events_;
  return found;
}

// Peers choose the addresses: what never came about goes before what has carried pages.
void PathLedger::make_room() {
  if (paths_.size() < kMost) return;
  const auto worth = [](const auto& entry) {
    const Path& path = entry.second;
    return std::tuple(!path.open.empty(), path.ended.connected > 0, path.heard_of);
  };
  for (auto& [name, path] : paths_) fold_ended(path);
  const auto least =
      std::min_element(paths_.begin(), paths_.end(),
                       [&](const auto& a, const auto& b) { return worth(a) < worth(b); });
  if (least->second.open.empty()) paths_.erase(least);
}

std::shared_ptr<PathCounters> PathLedger::connected(size_t device, const Endpoint& to) {
  const std::lock_guard lock(mutex_);
  Path& over = path(device, to);
  fold_ended(over);
  ++over.ended.connected;
  return over.open.emplace_back(std::make_shared<PathCounters>());
}

void PathLedger::failed(size_t device, const Endpoint& to) {
  const std::lock_guard lock(mutex_);
  ++path(device, to).ended.failed;
}

// Counters that only the ledger still references belong to a connection that has gone, and nobody
// can take a new reference to them.
void PathLedger::fold_ended(Path& path) {
  std::erase_if(path.open, [&path](const std::shared_ptr<PathCounters>& counters) {
    if (counters.use_count() > 1) return false;
    std::atomic_thread_fence(std::memory_order_acquire);
    add(path.ended, *counters);
    return true;
  });
}

std::vector<PathUse> PathLedger::paths() const {
  std::vector<PathUse> uses;
  const std::lock_guard lock(mutex_);
  for (auto& [name, path] : paths_) {
    fold_ended(path);
    PathUse& use = uses.emplace_back(path.ended);
    use.connections = path.open.size();
    for (const auto& counters : path.open) add(use, *counters);
    if (path.device >= devices_->size()) continue;
    use.link_bits_per_s = PortFiles((*devices_)[path.device]).link_bits_per_s();
  }
  return uses;
}

}  // namespace farpage::verbs
