#include "lab/scale/crowd_cost.h"

#include <functional>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory/mapping.h"
#include "control/messages.h"
#include "lab/scale/cpu_time.h"
#include "lab/scale/heap.h"
#include "sim/sim_cluster.h"

namespace farpage {
namespace {

constexpr uint64_t kPuts = 256;
constexpr uint64_t kKeys = 4;
constexpr uint64_t kStatuses = 16;
constexpr uint64_t kGoodbyeNs = 10 * kMillisecond;
constexpr uint64_t kPutNs = kSecond;

SimClusterOptions cluster_options(uint64_t clients) {
  SimClusterOptions options;
  options.node.lease_ms = NodeOptions().lease_ms;  // within which all of them renew
  options.node.max_clients = clients;
  return options;
}

class Crowd {
 public:
  Crowd(uint64_t clients, uint64_t seed) : cluster_(seed, cluster_options(clients)) {}

  CrowdCost measure(uint64_t clients) {
    CrowdCost cost = {.clients = clients};
    const uint64_t resting = clients - 1;
    ids_.reserve(resting);
    const uint64_t before = heap_bytes();
    cost.hello_ns = each_of(resting, [this](uint64_t) {
      ids_.push_back(node().connected().value());
      auto hello = ask<HelloReply>(ids_.back(), HelloRequest{});
      incarnation_ = hello.incarnation;
    });
    const uint64_t after = heap_bytes();
    cost.heap_bytes_per_client = after > before ? (after - before) / resting : 0;
    cost.renewal_ns = each_of(
        resting, [this](uint64_t i) { ask<RenewReply>(ids_[i], RenewRequest{incarnation_}); });
    cost.status_ns =
        each_of(kStatuses, [this](uint64_t) { ask<StatusReply>(ids_[0], StatusRequest{}); });
    cost.put_ns = measure_puts();
    cluster_.world().run_until(cluster_.now_ns() + kGoodbyeNs);
    FARPAGE_CHECK(ask<StatusReply>(ids_[0], StatusRequest{}).clients == resting);
    return cost;
  }

 private:
  NodeService& node() { return cluster_.node_service(0); }

  // Processor time of one of `count` calls.
  static uint64_t each_of(uint64_t count, const std::function<void(uint64_t)>& call) {
    const uint64_t from_ns = thread_cpu_ns();
    for (uint64_t i = 0; i < count; ++i) call(i);
    return (thread_cpu_ns() - from_ns) / count;
  }

  template <typename T>
  T ask(ClientId client, Request request) {
    std::optional<Reply> reply;
    node().handle(client, std::move(request),
                  [&reply](Reply answer) { reply = std::move(answer); });
    FARPAGE_CHECK(
        cluster_.world().wait_until(cluster_.now_ns(), [&] { return reply.has_value(); }));
    return std::get<T>(std::move(*reply));
  }

  uint64_t measure_puts() {
    const auto client = cluster_.connect().value();
    Mapping memory = Mapping::anonymous(small_sim_node().page_bytes).value();
    const Region region = client->register_memory({memory.data(), memory.bytes()}).value();
    return each_of(kPuts, [&](uint64_t i) {
      const PutRequest request = {make_page_key("crowd", std::to_string(i % kKeys)),
                                  region.slice(0, small_sim_node().page_bytes)};
      Put put = client->put({&request, 1}, cluster_.now_ns() + kPutNs);
      FARPAGE_CHECK(put.wait()[0].code == Code::kOk);
    });
  }

  SimCluster cluster_;
  std::vector<ClientId> ids_;
  uint64_t incarnation_ = 0;
};

}  // namespace

CrowdCost measure_crowd(uint64_t clients, uint64_t seed) {
  return Crowd(clients, seed).measure(clients);
}

}  // namespace farpage
