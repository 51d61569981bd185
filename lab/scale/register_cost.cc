#include "lab/scale/register_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "etcd/fleet_reader.h"
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

// What one reader does again and again: something that does not count, and a read, which brings
// what it has to.
struct ReaderTurn {
  std::function<bool()> before = [] { return true; };
  std::function<bool()> read;
};

// As many by each of the readers, at once. Each of them has a turn of its own.
Result<RegisterReads> measure_reads(
    const etcd::Access& access,
    const std::function<ReaderTurn(etcd::Client& client, uint64_t reader)>& make_turn,
    uint64_t readers, uint64_t reads) {
  std::atomic<uint64_t> cpu_ns = 0;
  std::atomic<uint64_t> wall_ns = 0;
  std::atomic<uint64_t> failed = 0;
  std::vector<std::thread> running;
  for (uint64_t reader = 0; reader < readers; ++reader) {
    running.emplace_back([&, reader] {
      etcd::Client client(access);
      const ReaderTurn turn = make_turn(client, reader);
      for (uint64_t i = 0; i < reads; ++i) {
        if (!turn.before()) ++failed;
        const uint64_t from_ns = thread_cpu_ns();
        const uint64_t begun_ns = boottime_clock().now_ns();
        if (!turn.read()) ++failed;
        cpu_ns += thread_cpu_ns() - from_ns;
        wall_ns += boottime_clock().now_ns() - begun_ns;
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  const uint64_t all = readers * reads;
  if (failed > 0) {
    return fail(Code::kUnavailable, fmt::format("{} of {} reads of etcd brought not what was "
                                                "written: is it busy with something else?",
                                                failed.load(), all));
  }
  const double seconds = static_cast<double>(wall_ns) / static_cast<double>(readers * kSecond);
  return RegisterReads{all, static_cast<double>(all) / seconds, cpu_ns / all};
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
  const auto is_fleet = [nodes](etcd::FleetReader& reader) {
    const auto fleet = reader.read(deadline());
    return fleet && (*fleet)->registered.confirmed.size() >= nodes &&
           (*fleet)->nodes.size() >= nodes;
  };
  const auto anew = [&](etcd::Client& client, uint64_t) {
    return ReaderTurn{.read = [&] {
      etcd::FleetReader reader(client);
      return is_fleet(reader);
    }};
  };
  const auto again = [&](etcd::Client& client, uint64_t) {
    auto reader = std::make_shared<etcd::FleetReader>(client);
    (void)reader->read(deadline());
    return ReaderTurn{.read = [&, reader] { return is_fleet(*reader); }};
  };
  const std::vector<Member> members = scale_epoch(nodes, 2, kPageBytes, 1).members;
  const auto after_a_confirmation = [&](etcd::Client& client, uint64_t number) {
    ReaderTurn turn = again(client, number);
    etcd::Transaction confirm;
    confirm.operations = {{etcd::Operation::Kind::kPut,
                           etcd::confirmed_key(access.prefix, members[number % nodes].node),
                           etcd::encode_confirmed(1)}};
    turn.before = [&, confirm] { return client.run(confirm, deadline()).has_value(); };
    return turn;
  };
  auto whole = measure_reads(access, anew, readers, reads);
  if (!whole) return tl::unexpected(whole.error());
  auto changed = measure_reads(access, after_a_confirmation, readers, reads);
  if (!changed) return tl::unexpected(changed.error());
  auto unchanged = measure_reads(access, again, readers, kSmallReads * reads);
  if (!unchanged) return tl::unexpected(unchanged.error());
  return RegisterCost{nodes, readers, *whole, *changed, *unchanged};
}

}  // namespace farpage
