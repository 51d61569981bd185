#include "lab/scale/register_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "etcd/client.h"
#include "etcd/records.h"
#include "lab/scale/cpu_time.h"
#include "lab/scale/placement_sample.h"

namespace farpage {
namespace {

constexpr size_t kPutsAtOnce = 100;  // etcd takes 128 operations in one transaction
constexpr uint64_t kCallNs = 10 * kSecond;
constexpr uint64_t kSmallReads = 20;  // for each of all
constexpr uint64_t kPageBytes = 64 * kKiB;

// The records below `prefix`, as nodes of these names have written them.
std::vector<etcd::Operation> records(const std::string& prefix, uint64_t nodes) {
  using Kind = etcd::Operation::Kind;
  Epoch epoch = scale_epoch(nodes, 2, kPageBytes, 1);
  for (Member& member : epoch.members) member.incarnation = ~member.node;
  const etcd::Terms terms = {
      .lease_ms = 2'000, .page_bytes = epoch.page_bytes, .replicas = 2, .seed = 1, .id = 1};
  std::vector<etcd::Operation> all = {{Kind::kPut, etcd::terms_key(prefix), etcd::encode(terms)},
                                      {Kind::kPut, etcd::epoch_key(prefix), etcd::encode(epoch)}};
  for (uint64_t i = 0; i < nodes; ++i) {
    const NodeId node = epoch.members[i].node;
    const etcd::NodeRecord record = {fmt::format("n{}", i), "tcp://10.0.0.1:7010", node, 0, 0};
    all.push_back({Kind::kPut, etcd::confirmed_key(prefix, node), etcd::encode_confirmed(1)});
    all.push_back({Kind::kPut, etcd::node_key(prefix, record.name), etcd::encode(record)});
  }
  return all;
}

uint64_t deadline() {
  return boottime_clock().now_ns() + kCallNs;
}

Result<void> write_records(const etcd::Access& access, uint64_t nodes) {
  etcd::Client writer(access);
  const std::vector<etcd::Operation> all = records(access.prefix, nodes);
  for (size_t first = 0; first < all.size(); first += kPutsAtOnce) {
    etcd::Transaction some;
    some.operations.assign(
        all.begin() + static_cast<ptrdiff_t>(first),
        all.begin() + static_cast<ptrdiff_t>(std::min(first + kPutsAtOnce, all.size())));
    auto written = writer.run(some, deadline());
    if (!written) return tl::unexpected(written.error());
  }
  return {};
}

// As many by each of the readers, at once.
Result<RegisterReads> measure_reads(
    const etcd::Access& access, const etcd::Transaction& asked,
    const std::function<bool(const etcd::TransactionReply&)>& is_right, uint64_t readers,
    uint64_t reads) {
  std::atomic<uint64_t> cpu_ns = 0;
  std::atomic<uint64_t> failed = 0;
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  for (uint64_t reader = 0; reader < readers; ++reader) {
    running.emplace_back([&] {
      etcd::Client client(access);
      const uint64_t from_ns = thread_cpu_ns();
      for (uint64_t i = 0; i < reads; ++i) {
        const auto reply = client.run(asked, deadline());
        if (!reply || !is_right(*reply)) ++failed;
      }
      cpu_ns += thread_cpu_ns() - from_ns;
    });
  }
  for (std::thread& thread : running) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const uint64_t all = readers * reads;
  if (failed > 0) {
    return fail(Code::kUnavailable, fmt::format("{} of {} reads of etcd brought not what was "
                                                "written: is it busy with something else?",
                                                failed.load(), all));
  }
  return RegisterReads{all, static_cast<double>(all) / took.count(), cpu_ns / all};
}

uint64_t base64_bytes(size_t bytes) {
  return (bytes + 2) / 3 * 4;
}

}  // namespace

RecordCost measure_records(uint64_t nodes) {
  RecordCost cost;
  const std::string prefix = "/farpage/farpage/";
  for (const etcd::Operation& record : records(prefix, nodes)) {
    if (record.key == etcd::epoch_key(prefix)) cost.epoch_bytes = record.value.size();
    cost.read_bytes += base64_bytes(record.key.size()) + base64_bytes(record.value.size());
  }
  etcd::FleetRecord fleet;
  for (uint64_t i = 0; i < nodes; ++i) {
    fleet.nodes.push_back({fmt::format("n{}", i), "tcp://10.0.0.1:7010", 0, 0, 0});
  }
  const uint64_t from_ns = thread_cpu_ns();
  for (const Member& member : scale_epoch(nodes, 1, kPageBytes, 1).members) {
    FARPAGE_CHECK(fleet.find(member.node) != nullptr);
  }
  cost.find_all_ns = thread_cpu_ns() - from_ns;
  return cost;
}

Result<RegisterCost> measure_register(etcd::Access access, uint64_t nodes, uint64_t readers,
                                      uint64_t reads) {
  access.prefix = fmt::format("/farpage/bench-scale-{}/", nodes);
  if (auto written = write_records(access, nodes); !written) {
    return tl::unexpected(written.error());
  }
  const etcd::Transaction all = etcd::read_fleet(access.prefix);
  const etcd::Transaction terms = etcd::read_terms(access.prefix);
  const auto is_fleet = [&](const etcd::TransactionReply& reply) {
    return etcd::decode_fleet(access.prefix, reply)
        .map([&](const etcd::FleetRecord& fleet) {
          return fleet.registered.all_confirmed() && fleet.nodes.size() >= nodes;
        })
        .value_or(false);
  };
  const auto is_terms = [](const etcd::TransactionReply& reply) {
    return reply.found.size() == 1 && reply.found[0].size() == 1;
  };
  auto whole = measure_reads(access, all, is_fleet, readers, reads);
  if (!whole) return tl::unexpected(whole.error());
  auto unchanged = measure_reads(access, terms, is_terms, readers, kSmallReads * reads);
  if (!unchanged) return tl::unexpected(unchanged.error());
  return RegisterCost{nodes, readers, *whole, *unchanged};
}

}  // namespace farpage
