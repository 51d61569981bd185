#include "node/fleet_node.h"
#include "node/memory_node.h"

namespace farpage {
namespace {

Result<std::shared_ptr<Versions>> open_versions(const NodeOptions& options, const Clock& clock,
                                                EpochFile file) {
  const uint64_t lease = options.lease_ms * kMillisecond;
  auto epoch = file.advance(lease, options.least_epoch);
  if (!epoch) return tl::unexpected(epoch.error());
  return std::make_shared<Versions>(std::make_shared<EpochFile>(std::move(file)), *epoch, lease,
                                    clock.now_ns());
}

std::shared_ptr<MemoryBudget> make_budget(const NodeOptions& options) {
  return MemoryBudget::make("node.staging_budget_bytes", options.client_budget_bytes(0));
}

}  // namespace

// The file is opened first, so that a second node on it is refused, and the epoch taken last.
Result<std::unique_ptr<NodeService>> make_memory_node(const NodeOptions& options, Runtime& runtime,
                                                      Fabric& fabric, PoolHandoff* keeper) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  auto file = EpochFile::open(options.state);
  if (!file) return tl::unexpected(file.error());
  auto run = MemoryNode::make_run(options, runtime, fabric, nullptr, make_budget(options), keeper,
                                  "alone");
  if (!run) return tl::unexpected(run.error());
  auto versions = open_versions(options, runtime.clock(), std::move(*file));
  if (!versions) return tl::unexpected(versions.error());
  run->versions = std::move(*versions);
  MemoryNode::adopt_former(*run);
  return std::make_unique<MemoryNode>(options, runtime, fabric, std::move(*run));
}

Result<std::unique_ptr<NodeService>> make_memory_node(const NodeOptions& options, Runtime& runtime,
                                                      Fabric& fabric, const Fleet& fleet,
                                                      NodeId self, PoolHandoff* keeper) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  if (auto valid = FleetNode::check(options, fleet, self); !valid)
    return tl::unexpected(valid.error());
  auto file = EpochFile::open(options.state);
  if (!file) return tl::unexpected(file.error());
  auto versions = open_versions(options, runtime.clock(), std::move(*file));
  if (!versions) return tl::unexpected(versions.error());
  auto node = std::make_unique<FleetNode>(options, runtime, fabric, fleet, self, *versions,
                                          make_budget(options), keeper);
  if (auto begun = node->begin(); !begun) return tl::unexpected(begun.error());
  return node;
}

}  // namespace farpage
