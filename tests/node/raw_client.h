#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "integrity/crc32c.h"
#include "integrity/page_check.h"
#include "pagetable/geometry.h"
#include "pagetable/index_layout.h"
#include "pagetable/placement.h"
#include "sim/network/network.h"
#include "sim/network/sim_region.h"
#include "sim/sim_cluster.h"
#include "tests/support/posting.h"
#include "transport/transfer_counters.h"

namespace farpage {

// One client of every node of a simulated cluster, at the level of messages and reads, with none of
// the client's own rules: it says what a node did, and what can be read there.
class RawClient {
 public:
  explicit RawClient(SimCluster& cluster, size_t client = 0)
      : cluster_(cluster), client_(client), memory_(kMemoryBytes) {
    local_ = fabric().register_local({memory_.data(), memory_.size()}).value();
  }

  static PageKey key(uint64_t number) { return make_page_key("raw", std::to_string(number)); }
  // The nodes of a key's set in the fleet's list, the primary first.
  std::vector<size_t> set_of(const PageKey& key) {
    const Epoch& epoch = epoch_now();
    const ReplicaSet set = Placement(epoch).replicas(key);
    std::vector<size_t> nodes;
    for (size_t rank = 0; rank < set.size(); ++rank) {
      nodes.push_back(number_of(epoch.members[set[rank]].node));
    }
    return nodes;
  }
  Epoch epoch_now() {
    if (cluster_.epochs() != nullptr) return cluster_.epochs()->current().epoch;
    return cluster_.fleet_for_client(client_).list;
  }
  EpochTag tag() {
    const Epoch epoch = epoch_now();
    return {epoch.number, epoch.identity()};
  }
  // A key whose set begins with these nodes, from `first` on.
  uint64_t number_with(const std::vector<size_t>& nodes, uint64_t first = 0) {
    for (uint64_t number = first;; ++number) {
      const auto set = set_of(key(number));
      if (std::equal(nodes.begin(), nodes.end(), set.begin())) return number;
    }
  }

  // A key whose primary is `from`, and will be `to` once that is a member too.
  uint64_t number_that_moves(size_t from, size_t to) {
    Epoch with = epoch_now();
    with.members.push_back({node_id("n" + std::to_string(to)), 1});
    with.give_slots();
    const Placement placement(with);
    for (uint64_t number = 0;; ++number) {
      const size_t primary = placement.replicas(key(number)).primary();
      if (set_of(key(number))[0] == from && primary + 1 == with.members.size()) return number;
    }
  }

  struct Answer {
    std::optional<Reply> reply;
    uint64_t at_ns = 0;
  };
  // The reply comes while the world runs.
  std::shared_ptr<Answer> send(size_t node, Request request) {
    Session& session = session_with(node);
    auto answer = std::make_shared<Answer>();
    session.service->handle(session.id, std::move(request),
                            [answer, &cluster = cluster_](Reply reply) {
                              answer->reply = std::move(reply);
                              answer->at_ns = cluster.now_ns();
                            });
    return answer;
  }
  template <typename T>
  T ask(size_t node, Request request, uint64_t patience_ns = 5 * kSecond) {
    const auto answer = send(node, std::move(request));
    cluster_.world().wait_until(cluster_.now_ns() + patience_ns,
                                [&] { return answer->reply.has_value(); });
    EXPECT_TRUE(answer->reply.has_value());
    if (!answer->reply) return T{};
    if (auto* refusal = std::get_if<Refusal>(&*answer->reply); refusal != nullptr) {
      last_refusal = *refusal;
    }
    EXPECT_TRUE(std::holds_alternative<T>(*answer->reply)) << last_refusal.message;
    return std::holds_alternative<T>(*answer->reply) ? std::move(std::get<T>(*answer->reply)) : T{};
  }

  static std::vector<std::byte> bytes_of(uint64_t number, uint64_t put) {
    std::vector<std::byte> bytes(256);
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(number * 31 + put * 7 + i);
    }
    return bytes;
  }
  // To one node, right or wrong; answered while the world runs.
  std::shared_ptr<Answer> begin_put(size_t node,
                                    const std::vector<std::pair<uint64_t, uint64_t>>& puts,
                                    uint64_t patience_ns = kSecond,
                                    std::optional<EpochTag> epoch = std::nullopt) {
    Session& session = session_with(node);
    CommitRequest commit;
    commit.epoch = epoch.value_or(tag());
    commit.patience_ns = patience_ns;
    uint64_t offset = 0;
    for (const auto& [number, put] : puts) {
      const auto bytes = bytes_of(number, put);
      std::memcpy(memory_.data() + offset, bytes.data(), bytes.size());
      commit.pages.push_back({key(number), offset, static_cast<uint32_t>(bytes.size()),
                              crc32c(0, bytes.data(), bytes.size())});
      offset += bytes.size();
    }
    Operation write;
    write.kind = OperationKind::kWrite;
    write.has_immediate = true;
    write.immediate = make_immediate(0, ++session.generation);
    write.remote = session.staging;
    write.local_count = 1;
    write.local[0] = local_.slice(0, offset);
    EXPECT_EQ(post_operations(*session.staging_channel, {&write, 1}).accepted, 1u);
    cluster_.world().run_until(cluster_.now_ns() + 100 * kMicrosecond);
    commit.immediate = write.immediate;
    return send(node, std::move(commit));
  }
  std::vector<CommitResult> results(const std::shared_ptr<Answer>& answer,
                                    uint64_t patience_ns = 5 * kSecond) {
    cluster_.world().wait_until(cluster_.now_ns() + patience_ns,
                                [&] { return answer->reply.has_value(); });
    EXPECT_TRUE(answer->reply.has_value());
    if (!answer->reply) return {};
    if (auto* refusal = std::get_if<Refusal>(&*answer->reply); refusal != nullptr) {
      last_refusal = *refusal;
      return {CommitResult{refusal->code, 0}};
    }
    return std::get<CommitReply>(*answer->reply).results;
  }
  CommitResult put(uint64_t number, uint64_t put, uint64_t patience_ns = kSecond) {
    const auto all = results(begin_put(set_of(key(number))[0], {{number, put}}, patience_ns));
    return all.empty() ? CommitResult{Code::kAborted, 0} : all[0];
  }

  struct Found {
    Version version = 0;
    std::vector<std::byte> bytes;
  };
  // The page that a client that reads this node's memory would accept; nothing if it accepts none.
  std::optional<Found> read(size_t node, uint64_t number) {
    Session& session = session_with(node);
    const Geometry& geometry = session.geometry;
    const PageKey wanted = key(number);
    const auto homes = key_buckets(wanted, geometry.buckets);
    std::array<Bucket, 2> buckets;
    for (size_t i = 0; i < 2; ++i) {
      if (!read_bytes(session, session.index, homes[i] * sizeof(Bucket), sizeof(Bucket))) return {};
      std::memcpy(&buckets[i], memory_.data() + kReadAt, sizeof(Bucket));
    }
    const Candidates candidates = find_candidates(buckets, wanted, geometry.slots);
    for (uint32_t i = 0; i < candidates.count; ++i) {
      const uint64_t slot = entry_slot(candidates.entries[i]);
      const uint64_t payload_bytes = geometry.slot_bytes() - sizeof(PageHeader);
      if (!read_bytes(session, session.headers, geometry.header_offset(slot), sizeof(PageHeader)) ||
          !read_bytes(session, session.pool, geometry.payload_offset(slot), payload_bytes,
                      sizeof(PageHeader))) {
        return {};
      }
      PageHeader header;
      std::memcpy(&header, memory_.data() + kReadAt, sizeof header);
      PageExpectation expected;
      expected.key = wanted;
      expected.incarnation = session.incarnation;
      if (check_header(header, expected) != PageFinding::kGood) continue;
      const std::byte* payload = memory_.data() + kReadAt + sizeof header;
      if (crc32c(0, payload, header.payload_bytes) != header.payload_crc) continue;
      found_slot_ = slot;
      return Found{header.version, {payload, payload + header.payload_bytes}};
    }
    return {};
  }
  // Whether put `put` of the key is what can be read there.
  bool holds(size_t node, uint64_t number, uint64_t put) {
    const auto found = read(node, number);
    return found && found->bytes == bytes_of(number, put);
  }

  // The page published in the node's memory now; takes no time.
  bool is_live(size_t node, uint64_t number) {
    const Session& session = session_with(node);
    const std::byte* headers = cluster_.world().network()->find(session.headers_key)->data;
    for (uint64_t slot = 0; slot < session.geometry.slots; ++slot) {
      PageHeader header;
      std::memcpy(&header, headers + session.geometry.header_offset(slot), sizeof header);
      if (header.key == key(number) && header.live != 0) return true;
    }
    return false;
  }
  // Flips a bit of the slot where the node holds it; of the payload, unless it is told otherwise.
  void damage(size_t node, uint64_t number, uint64_t offset = sizeof(PageHeader) + 100) {
    ASSERT_TRUE(read(node, number));
    const Session& session = session_with(node);
    const Geometry& geometry = session.geometry;
    const bool is_of_header = offset < sizeof(PageHeader);
    const uint64_t key = is_of_header ? session.headers_key : session.pool_key;
    const uint64_t at = is_of_header
                            ? geometry.header_offset(found_slot_) + offset
                            : geometry.payload_offset(found_slot_) + offset - sizeof(PageHeader);
    cluster_.world().network()->find(key)->data[at] ^= std::byte{1};
  }

  // The same of the entry that leads to the page.
  void damage_index(size_t node, uint64_t number) {
    const Session& session = session_with(node);
    auto* index =
        reinterpret_cast<Bucket*>(cluster_.world().network()->find(session.index_key)->data);
    for (const uint64_t home : key_buckets(key(number), session.geometry.buckets)) {
      for (IndexEntry& entry : index[home].entries) {
        if (!entry_may_be(entry, key(number))) continue;
        entry ^= uint64_t{1} << 60;
        return;
      }
    }
    FAIL() << "no entry";
  }

  StatusReply status(size_t node) { return ask<StatusReply>(node, StatusRequest{}); }
  bool wait_for(const std::function<bool()>& what, uint64_t patience_ns = 10 * kSecond) {
    const uint64_t until = cluster_.now_ns() + patience_ns;
    while (!what()) {
      if (cluster_.now_ns() >= until) return false;
      cluster_.world().run_until(cluster_.now_ns() + kMillisecond);
    }
    return true;
  }
  void run_for(uint64_t duration_ns) {
    cluster_.world().run_until(cluster_.now_ns() + duration_ns);
  }

  // Its next request to this node begins with a hello.
  void forget(size_t node) { sessions_.erase(node); }

  Refusal last_refusal;

 private:
  static constexpr uint64_t kMemoryBytes = 64 * kKiB;
  static constexpr uint64_t kReadAt = 32 * kKiB;

  struct Session {
    NodeService* service = nullptr;
    ClientId id = 0;
    uint64_t incarnation = 0;
    Geometry geometry;
    std::unique_ptr<Initiator> staging_channel;
    RemoteRegion staging;
    uint32_t generation = 0;
    std::unique_ptr<Initiator> read_channel;
    RemoteRegion pool;
    RemoteRegion headers;  // the pool's where they lie together
    uint64_t pool_key = 0;
    uint64_t headers_key = 0;
    uint64_t index_key = 0;
    RemoteRegion index;
  };

  sim::SimFabric& fabric() { return cluster_.client_fabric(client_); }
  size_t number_of(NodeId node) {
    for (size_t i = 0;; ++i) {
      if (node_id("n" + std::to_string(i)) == node) return i;
    }
  }

  Session& session_with(size_t node) {
    Session& session = sessions_[node];
    NodeService* service = &cluster_.node_service(node);
    if (session.service == service) return session;
    session = {};
    session.service = service;
    session.id = service->connected().value();
    HelloRequest hello;
    hello.staging_bytes = kReadAt;
    hello.epoch = tag();
    std::optional<Reply> reply;
    const auto ask_now = [&](Request request) {
      reply.reset();
      service->handle(session.id, std::move(request),
                      [&](Reply answer) { reply = std::move(answer); });
      cluster_.world().wait_until(cluster_.now_ns(), [&] { return reply.has_value(); });
    };
    ask_now(hello);
    if (const auto* refusal = std::get_if<Refusal>(&*reply)) {
      ADD_FAILURE() << refusal->message;
      return session;
    }
    auto& greeted = std::get<HelloReply>(*reply);
    session.incarnation = greeted.incarnation;
    session.geometry = {greeted.page_bytes, greeted.slots, greeted.buckets,
                        static_cast<SlotLayout>(greeted.slot_layout)};
    session.staging_channel = fabric().connect(std::move(greeted.staging_offer), kNever).value();
    session.staging = import_whole(*session.staging_channel, std::move(greeted.staging)).value();
    ask_now(OpenLaneRequest{});
    auto& lane = std::get<OpenLaneReply>(*reply);
    session.read_channel = fabric().connect(std::move(lane.read_offer), kNever).value();
    session.pool_key = sim::key_of(lane.pool).value();
    session.index_key = sim::key_of(lane.index).value();
    session.pool = import_whole(*session.read_channel, std::move(lane.pool)).value();
    session.headers = session.pool;
    session.headers_key = session.pool_key;
    if (lane.headers) {
      session.headers_key = sim::key_of(*lane.headers).value();
      session.headers = import_whole(*session.read_channel, std::move(*lane.headers)).value();
    }
    session.index = import_whole(*session.read_channel, std::move(lane.index)).value();
    return session;
  }

  bool read_bytes(Session& session, const RemoteRegion& region, uint64_t offset, uint64_t bytes,
                  uint64_t to = 0) {
    Operation read;
    read.remote = region;
    read.remote_offset = offset;
    read.local_count = 1;
    read.local[0] = local_.slice(kReadAt + to, bytes);
    EXPECT_EQ(post_operations(*session.read_channel, {&read, 1}).accepted, 1u);
    Completion completion;
    while (session.read_channel->poll({&completion, 1}) == 0) run_for(kMicrosecond);
    return completion.outcome == Outcome::kOk;
  }

  SimCluster& cluster_;
  size_t client_;
  std::vector<std::byte> memory_;
  Region local_;
  std::map<size_t, Session> sessions_;
  uint64_t found_slot_ = 0;
};

}  // namespace farpage
