#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "integrity/crc32c.h"
#include "node/node.h"
#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/support/counting_fabric.h"
#include "tests/support/posting.h"
#include "tests/support/temp_dir.h"
#include "transport/transfer_counters.h"

namespace farpage {

// A memory node in virtual time, called as its control server would call it.
class SimNode {
 public:
  explicit SimNode(NodeOptions options = small_options()) : options_(std::move(options)) {
    options_.state = dir_ / "node.state";
    start();
  }

  static NodeOptions small_options() {
    NodeOptions options;
    options.page_bytes = 1024;
    options.pool_bytes = 64 * (1024 + 64);
    options.reuse_ms = 10;
    options.lease_ms = 500;
    options.max_staging_bytes = 16 * kMiB;
    options.scrub_bytes_per_s = 0;
    return options;
  }
  static NodeOptions of_slots(uint64_t slots, bool evict = true) {
    NodeOptions options = small_options();
    options.pool_bytes = slots * (1024 + 64);
    options.evict = evict;
    return options;
  }

  void start() { node_ = make_memory_node(options_, fabric_.runtime(), counted_).value(); }
  void stop() { node_.reset(); }
  void restart() {
    stop();
    start();
  }

  // For how long the node's process waits for its turn on another thread.
  void set_offload_ns(uint64_t duration_ns) {
    fabric_.set_options({.offload_min_ns = duration_ns, .offload_max_ns = duration_ns});
  }

  ControlService& service() { return *node_; }
  // The node's resources of its fabric.
  const CountingFabric& held() const { return counted_; }
  NodeOptions& options() { return options_; }
  sim::World& world() { return world_; }
  sim::SimFabric& client_fabric() { return client_fabric_; }
  uint64_t now() const { return world_.now_ns(); }
  void run_for(uint64_t duration_ns) { world_.run_until(world_.now_ns() + duration_ns); }
  uint64_t cooling_ns() const { return options_.reuse_ms * kMillisecond / 64 * 65; }

  // Answers that come without any time going by.
  Reply ask(ClientId client, Request request) {
    std::optional<Reply> answer;
    node_->handle(client, std::move(request), [&](Reply reply) { answer = std::move(reply); });
    world_.wait_until(now(), [&] { return answer.has_value(); });
    EXPECT_TRUE(answer.has_value());
    return answer ? std::move(*answer) : Reply(Refusal{Code::kAborted, "no answer"});
  }
  StatusReply status(ClientId client) {
    return std::get<StatusReply>(ask(client, StatusRequest{}));
  }

 private:
  TempDir dir_;
  NodeOptions options_;
  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  CountingFabric counted_{fabric_};
  sim::SimFabric client_fabric_{world_, {}};
  std::unique_ptr<ControlService> node_;
};

inline PageKey sim_key(uint64_t number) {
  std::mt19937_64 random(number + 1);
  return {random(), random()};
}

struct CommitAnswer {
  int times = 0;
  uint64_t at_ns = 0;
  std::vector<CommitResult> results;
};

// One client of a SimNode that has said hello.
class SimClient {
 public:
  explicit SimClient(SimNode& node, uint64_t staging_bytes = 64 * kKiB)
      : node_(node), id_(node.service().connected().value()), memory_(staging_bytes) {
    Reply reply = node.ask(id_, HelloRequest{kControlProtocol, kPageFormat, staging_bytes});
    hello = std::get<HelloReply>(std::move(reply));
    channel_ = node.client_fabric().connect(std::move(hello.staging_offer), kNever).value();
    staging_ = import_whole(*channel_, std::move(hello.staging)).value();
    local_ = node.client_fabric().register_local({memory_.data(), memory_.size()}).value();
  }

  ClientId id() const { return id_; }

  // Pages of `bytes` random bytes, one after the other; commit() finds them once they have arrived.
  CommitPage stage(uint64_t number, uint64_t offset, uint32_t bytes) {
    std::mt19937_64 random(++fill_);
    std::ranges::generate(memory_.begin() + static_cast<ptrdiff_t>(offset),
                          memory_.begin() + static_cast<ptrdiff_t>(offset + bytes),
                          [&] { return static_cast<std::byte>(random()); });
    return {sim_key(number), offset, bytes, crc32c(0, memory_.data() + offset, bytes)};
  }
  uint32_t send(uint64_t bytes) {
    Operation write;
    write.kind = OperationKind::kWrite;
    write.has_immediate = true;
    write.immediate = make_immediate(0, ++generation_);
    write.remote = staging_;
    write.local_count = 1;
    write.local[0] = local_.slice(0, bytes);
    EXPECT_EQ(post_operations(*channel_, {&write, 1}).accepted, 1u);
    return write.immediate;
  }
  // Waits until it must have arrived, so that a commit is looked at on the nanosecond it is made.
  uint32_t send_and_arrive(uint64_t bytes) {
    const uint32_t immediate = send(bytes);
    node_.run_for(kMillisecond);
    return immediate;
  }

  std::shared_ptr<CommitAnswer> commit(uint32_t immediate, std::vector<CommitPage> pages,
                                       uint64_t patience_ns = kSecond) {
    auto answer = std::make_shared<CommitAnswer>();
    node_.service().handle(id_, CommitRequest{immediate, patience_ns, std::move(pages)},
                           [answer, &node = node_](Reply reply) {
                             ++answer->times;
                             answer->at_ns = node.now();
                             answer->results = std::get<CommitReply>(reply).results;
                           });
    return answer;
  }

  // A whole put, waited for.
  CommitResult put(uint64_t number, uint64_t patience_ns = kSecond) {
    const CommitPage page = stage(number, 0, 512);
    const auto answer = commit(send(512), {page}, patience_ns);
    EXPECT_TRUE(node_.world().wait_until(node_.now() + patience_ns + kSecond,
                                         [&] { return answer->times > 0; }));
    EXPECT_EQ(answer->results.size(), 1u);
    return answer->results.empty() ? CommitResult{Code::kAborted, 0} : answer->results[0];
  }

  HelloReply hello;

 private:
  SimNode& node_;
  ClientId id_;
  std::vector<std::byte> memory_;
  uint64_t fill_ = 0;
  uint32_t generation_ = 0;
  std::unique_ptr<Initiator> channel_;
  RemoteRegion staging_;
  Region local_;
};

}  // namespace farpage
