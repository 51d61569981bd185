#include "node/tenants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <random>

#include "control/tcp_control.h"
#include "control/unix_socket.h"
#include "net/listener.h"
#include "sim/sim_pool_keeper.h"
#include "tests/support/engine.h"
#include "tests/support/posting.h"
#include "tests/support/seeds.h"
#include "tests/support/temp_dir.h"
#include "transport/shm/shm_fabric.h"
#include "transport/tcp/tcp_fabric.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4 * kKiB;
constexpr uint64_t kPatientNs = 20 * kSecond;
constexpr size_t kA = 0;
constexpr size_t kB = 1;

enum class Path : uint8_t { kShm, kTcp };

NodeOptions small_options() {
  NodeOptions options;
  options.page_bytes = kPageBytes;
  options.pool_bytes = 4 * kMiB;
  options.reuse_ms = 20;
  options.lease_ms = 1'000;
  options.scrub_bytes_per_s = 0;
  return options;
}

std::vector<TenantOptions> two_tenants() {
  return {{"a", "a.token", kMiB}, {"b", "b.token", 2 * kMiB}};
}

// A node with two tenants and a client of each, over real sockets.
class TenantsTest : public ::testing::TestWithParam<Path> {
 protected:
  explicit TenantsTest(NodeOptions options = small_options()) : options_(std::move(options)) {
    options_.state = dir_ / "node.state";
    start();
  }
  ~TenantsTest() override { stop(); }

  void start() {
    std::vector<Fabric*> fabrics;
    for (size_t i = 0; i < 2; ++i) {
      node_fabrics_.push_back(GetParam() == Path::kShm ? shm::make_shm_fabric() : make_tcp());
      fabrics.push_back(node_fabrics_.back().get());
    }
    const std::array<PoolHandoff*, 2> keepers = {&keepers_[kA], &keepers_[kB]};
    runtime_->run([&] {
      nodes_ = TenantNodes::create(options_, two_tenants(), *runtime_, fabrics, keepers).value();
    });
    for (size_t i = 0; i < 2; ++i) addresses_[i].path = dir_ / ("node" + std::to_string(i));
    if (GetParam() == Path::kTcp) {
      listen();
    } else {
      for (size_t i = 0; i < 2; ++i) {
        unix_.push_back(listen_unix(*runtime_, addresses_[i].path, nodes_->tenant(i)).value());
      }
    }
    for (size_t i = 0; i < 2; ++i) connect(i);
  }
  void stop() {
    for (size_t i = 0; i < 2; ++i) engines_[i].reset();
    for (size_t i = 0; i < 2; ++i) clients_[i].reset();
    listener_.reset();
    servers_.clear();
    unix_.clear();
    runtime_->run([&] { nodes_.reset(); });
    runtime_.reset();
  }
  void restart() {
    stop();
    node_fabrics_.clear();
    data_.clear();
    runtime_ = std::make_unique<AsioRuntime>();
    start();
  }

  std::unique_ptr<Fabric> make_tcp() {
    auto made = tcp::make_tcp_fabric({.io_threads = 1}).value();
    data_.push_back(made.get());
    return made;
  }
  void listen() {
    for (size_t i = 0; i < 2; ++i) servers_.emplace_back(*runtime_, nodes_->tenant(i));
    const auto tenant = [](const Introduction& introduction) {
      return introduction.tenant.value();
    };
    listener_ = Listener::listen(
                    {"", "127.0.0.1", 0}, {{}, nullptr, {tokens_[0], tokens_[1]}},
                    {.control =
                         [this, tenant](std::unique_ptr<Stream> stream, const Introduction& by) {
                           servers_[tenant(by)].take(std::move(stream));
                         },
                     .data =
                         [this, tenant](std::unique_ptr<Stream> stream, const Introduction& by) {
                           data_[tenant(by)]->accept(std::move(stream), by);
                         }})
                    .value();
    addresses_.fill(listener_->address());
  }
  void connect(size_t i) {
    const ClientCredentials credentials = {tokens_[i], nullptr};
    client_fabrics_[i] = GetParam() == Path::kShm
                             ? shm::make_shm_fabric()
                             : tcp::make_tcp_fabric({.credentials = credentials}).value();
    dialers_[i] = make_dialer(client_runtime_, addresses_[i], credentials, 20'000).value();
    ClientOptions options;
    options.staging_bytes = kMiB;
    options.connect_ms = 20'000;
    clients_[i] =
        Client::connect(options, client_runtime_, *client_fabrics_[i], *dialers_[i]).value();
    engines_[i].emplace(*clients_[i], kPageBytes, 4);
  }

  Engine& engine(size_t tenant) { return *engines_[tenant]; }
  Code put(size_t tenant, uint64_t number, uint64_t put_number) {
    return engine(tenant).put(test_key(number), put_number, kPatientNs).code;
  }
  // Which put of it comes back; nothing: a miss. A verdict that is late on a busy machine is asked
  // for again.
  std::optional<uint64_t> fetch(size_t tenant, uint64_t number) {
    PageVerdict verdict;
    do {
      verdict = engine(tenant).fetch(test_key(number), 0, kPatientNs);
    } while (verdict.verdict != Verdict::kReady && verdict.reason != Reason::kMiss);
    if (verdict.verdict != Verdict::kReady) return std::nullopt;
    const auto found = engine(tenant).put_number_of(test_key(number));
    EXPECT_TRUE(found) << "wrong bytes";
    return found;
  }
  uint64_t remove(size_t tenant, uint64_t number) {
    const PageKey key = test_key(number);
    return clients_[tenant]->remove({&key, 1}, engine(tenant).deadline(kPatientNs)).wait().value();
  }
  StatusReply status(size_t tenant) {
    return clients_[tenant]->node_status(engine(tenant).deadline(kPatientNs)).value();
  }

  // A session beside all clients, with whatever requests this test makes up.
  Reply ask(size_t tenant, ClientId client, Request request) {
    auto reply = std::make_shared<std::optional<Reply>>();
    auto shared = std::make_shared<Request>(std::move(request));
    runtime_->run([&] {
      nodes_->tenant(tenant).handle(client, std::move(*shared),
                                    [reply](Reply answer) { *reply = std::move(answer); });
    });
    const auto answered = [&] {
      bool is_there = false;
      runtime_->run([&] { is_there = reply->has_value(); });
      return is_there;
    };
    while (!answered())
      client_runtime_.wait_until(client_runtime_.clock().now_ns() + kMillisecond,
                                 [] { return false; });
    return std::move(**reply);
  }
  ClientId greeted(size_t tenant) {
    ClientId id = 0;
    runtime_->run([&] { id = nodes_->tenant(tenant).connected().value(); });
    HelloRequest hello;
    (void)ask(tenant, id, hello);
    return id;
  }

  TempDir dir_;
  NodeOptions options_;
  const std::array<SharedToken, 2> tokens_ = {SharedToken{"the token of tenant a"},
                                              SharedToken{"the token of tenant b"}};
  std::array<SimPoolKeeper, 2> keepers_;
  std::vector<std::unique_ptr<Fabric>> node_fabrics_;
  std::vector<tcp::TcpFabric*> data_;
  std::unique_ptr<AsioRuntime> runtime_ = std::make_unique<AsioRuntime>();
  std::unique_ptr<TenantNodes> nodes_;
  std::array<Address, 2> addresses_;
  std::vector<std::unique_ptr<ControlServer>> unix_;
  std::deque<TcpControlServer> servers_;
  std::unique_ptr<Listener> listener_;
  AsioRuntime client_runtime_;
  std::array<std::unique_ptr<Fabric>, 2> client_fabrics_;
  std::array<std::unique_ptr<ControlDialer>, 2> dialers_;
  std::array<std::unique_ptr<Client>, 2> clients_;
  std::array<std::optional<Engine>, 2> engines_;
};

TEST_P(TenantsTest, SameKeyIsAnotherPageForEach) {
  ASSERT_EQ(put(kA, 1, 11), Code::kOk);
  EXPECT_EQ(fetch(kB, 1), std::nullopt);
  EXPECT_FALSE(engine(kB).lane().contains(test_key(1), engine(kB).deadline(kPatientNs)));
  EXPECT_EQ(remove(kB, 1), 0u);
  EXPECT_EQ(fetch(kA, 1), 11);
  ASSERT_EQ(put(kB, 1, 22), Code::kOk);
  EXPECT_EQ(fetch(kA, 1), 11);
  EXPECT_EQ(fetch(kB, 1), 22);
  EXPECT_EQ(remove(kB, 1), 1u);
  EXPECT_EQ(fetch(kA, 1), 11);
  EXPECT_EQ(fetch(kB, 1), std::nullopt);
}

// With any load by the other, each sees the same as alone. The truth is a map.
TEST_P(TenantsTest, EachHasItsOwnPagesAgainWhereTheyWereHeld) {
  ASSERT_EQ(put(kA, 1, 11), Code::kOk);
  ASSERT_EQ(put(kB, 1, 22), Code::kOk);
  ASSERT_EQ(put(kB, 2, 33), Code::kOk);
  restart();
  EXPECT_EQ(fetch(kA, 1), 11);
  EXPECT_EQ(fetch(kA, 2), std::nullopt);
  EXPECT_EQ(fetch(kB, 1), 22);
  EXPECT_EQ(fetch(kB, 2), 33);
  keepers_[kB].lose();
  restart();
  EXPECT_EQ(fetch(kA, 1), 11);
  EXPECT_EQ(fetch(kB, 1), std::nullopt);
  ASSERT_EQ(put(kB, 1, 44), Code::kOk);
  EXPECT_EQ(fetch(kB, 1), 44);
}

TEST_P(TenantsTest, EachSeesWhatItWouldSeeAlone) {
  const uint64_t seed = seeds_from_environment(1).first;
  SCOPED_TRACE("FARPAGE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::array<std::map<uint64_t, uint64_t>, 2> truth;
  for (uint64_t step = 1; step <= 400; ++step) {
    const size_t tenant = random() % 2;
    const uint64_t number = random() % 12;
    const auto held = truth[tenant].find(number);
    switch (random() % 4) {
      case 0:
        ASSERT_EQ(put(tenant, number, step), Code::kOk);
        truth[tenant][number] = step;
        break;
      case 1:
        ASSERT_EQ(remove(tenant, number), held == truth[tenant].end() ? 0u : 1u);
        if (held != truth[tenant].end()) truth[tenant].erase(held);
        break;
      default:
        ASSERT_EQ(fetch(tenant, number), held == truth[tenant].end()
                                             ? std::nullopt
                                             : std::optional<uint64_t>(held->second))
            << step;
    }
  }
}

TEST_P(TenantsTest, PressureOfOneEvictsItsOwnPagesAlone) {
  for (uint64_t number = 0; number < 16; ++number) ASSERT_EQ(put(kA, number, 1), Code::kOk);
  for (uint64_t number = 0; number < 1'500; ++number) ASSERT_EQ(put(kB, number, 2), Code::kOk);
  for (uint64_t number = 0; number < 16; ++number) ASSERT_EQ(fetch(kA, number), 1) << number;
  EXPECT_EQ(status(kA).evictions, 0u);
  EXPECT_GT(status(kB).evictions, 900u);
  EXPECT_LE(status(kB).tenants.at(0).held_bytes, 2 * kMiB);
}

TEST_P(TenantsTest, StatusOfATenantIsOfItselfAlone) {
  ASSERT_EQ(put(kA, 1, 1), Code::kOk);
  ASSERT_EQ(put(kA, 2, 1), Code::kOk);
  ASSERT_EQ(put(kB, 1, 1), Code::kOk);
  const StatusReply own = status(kB);
  EXPECT_EQ(own.puts, 1u);
  EXPECT_EQ(own.clients, 1u);
  EXPECT_EQ(own.slots_live, 1u);
  EXPECT_EQ(own.cpu_ns, 0u);
  EXPECT_LE(own.slots * kPageBytes, 2 * kMiB);
  ASSERT_EQ(own.tenants.size(), 1u);
  EXPECT_EQ(own.tenants[0].name, "b");
  EXPECT_EQ(own.tenants[0].quota_bytes, 2 * kMiB);
  EXPECT_EQ(own.tenants[0].held_bytes, kPageBytes);

  StatusReply all;
  runtime_->run([&] { all = nodes_->status(); });
  EXPECT_EQ(all.puts, 3u);
  EXPECT_EQ(all.clients, 2u);
  EXPECT_EQ(all.slots_live, 3u);
  EXPECT_GT(all.cpu_ns, 0u);
  ASSERT_EQ(all.tenants.size(), 2u);
  EXPECT_EQ(all.tenants[0].name, "a");
  EXPECT_EQ(all.tenants[0].puts, 2u);
  EXPECT_EQ(all.tenants[1].puts, 1u);
}

TEST_P(TenantsTest, OperatorsOwnConnectionOpensNothingButStatus) {
  std::vector<Reply> replies;
  runtime_->run([&] {
    const ClientId id = nodes_->connected().value();
    const auto keep = [&](Reply reply) { replies.push_back(std::move(reply)); };
    nodes_->handle(id, HelloRequest{}, keep);
    nodes_->handle(id, RemoveRequest{}, keep);
    nodes_->handle(id, StatusRequest{}, keep);
    nodes_->disconnected(id);
  });
  ASSERT_EQ(replies.size(), 3u);
  EXPECT_EQ(std::get<Refusal>(replies[0]).code, Code::kDenied);
  EXPECT_EQ(std::get<Refusal>(replies[1]).code, Code::kDenied);
  EXPECT_EQ(std::get<StatusReply>(replies[2]).tenants.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Paths, TenantsTest, ::testing::Values(Path::kShm, Path::kTcp),
                         [](const auto& path) { return path.param == Path::kShm ? "shm" : "tcp"; });

class TcpTenants : public TenantsTest {
 protected:
  static constexpr uint64_t kReadBytes = 64 * kKiB;

  // All that can be read of a region, by whoever has the channel; pieces that are refused are left
  // out.
  std::string read_all_of(Initiator& channel, const RemoteRegion& region, uint64_t bytes,
                          const Region& local, const std::vector<std::byte>& memory) {
    std::string text;
    for (uint64_t offset = 0; offset + kReadBytes <= bytes; offset += kReadBytes) {
      Operation read;
      read.remote = region;
      read.remote_offset = offset;
      read.local_count = 1;
      read.local[0] = local.slice(0, kReadBytes);
      if (post_operations(channel, {&read, 1}).accepted != 1) return text;
      Completion completion;
      while (channel.poll({&completion, 1}) == 0) {
        channel.wait(client_runtime_.clock().now_ns() + kMillisecond);
      }
      if (completion.outcome != Outcome::kOk) return text;
      text.append(reinterpret_cast<const char*>(memory.data()), kReadBytes);
    }
    return text;
  }
};

// The names of regions can be guessed, and are told here: they lead a tenant's channels to its own
// memory or nowhere.
TEST_P(TcpTenants, NameOfAnothersRegionLeadsNowhere) {
  ASSERT_EQ(put(kA, 1, 1), Code::kOk);
  std::vector<std::byte> page(kPageBytes);
  fill_page(page, test_key(1), 1);
  const std::string secret(reinterpret_cast<const char*>(page.data()), 64);
  std::array<std::string, 2> seen;
  std::vector<std::byte> memory(kReadBytes);
  auto theirs = std::get<OpenLaneReply>(ask(kA, greeted(kA), OpenLaneRequest{}));
  const std::string name = theirs.pool.opaque;
  for (size_t tenant = 0; tenant < 2; ++tenant) {
    auto lane = std::get<OpenLaneReply>(ask(tenant, greeted(tenant), OpenLaneRequest{}));
    lane.read_offer.peer = {format_address(addresses_[tenant]), "127.0.0.1"};
    Fabric& fabric = *client_fabrics_[tenant];
    const auto channel =
        fabric.connect(std::move(lane.read_offer), client_runtime_.clock().now_ns() + kPatientNs)
            .value();
    const Region local = fabric.register_local({memory.data(), memory.size()}).value();
    RegionExport forged;
    forged.bytes = kMiB / 2;
    forged.access = Access::kRemoteRead;
    forged.opaque = name;
    const RemoteRegion region = import_whole(*channel, std::move(forged)).value();
    seen[tenant] = read_all_of(*channel, region, kMiB / 2, local, memory);
  }
  EXPECT_NE(seen[kA].find(secret), std::string::npos) << "what is looked for must be there";
  EXPECT_EQ(seen[kB].find(secret), std::string::npos);
}

// Nor does the name of a channel that the node has offered to another.
TEST_P(TcpTenants, AnothersChannelCannotBeTakenUp) {
  auto lane = std::get<OpenLaneReply>(ask(kA, greeted(kA), OpenLaneRequest{}));
  const auto deadline = [&] { return client_runtime_.clock().now_ns() + kPatientNs; };
  const auto take_up = [&](size_t tenant) {
    ChannelOffer offer;
    offer.opaque = lane.read_offer.opaque;
    offer.peer = {format_address(addresses_[tenant]), "127.0.0.1"};
    return client_fabrics_[tenant]->connect(std::move(offer), deadline());
  };
  const auto stolen = take_up(kB);
  ASSERT_FALSE(stolen.has_value());
  EXPECT_EQ(stolen.error().code, Code::kExists);
  EXPECT_TRUE(take_up(kA).has_value());
}

INSTANTIATE_TEST_SUITE_P(Paths, TcpTenants, ::testing::Values(Path::kTcp));

class ShmTenants : public TenantsTest {};

TEST_P(ShmTenants, PushBringsNothingOfAnother) {
  ASSERT_EQ(put(kA, 1, 1), Code::kOk);
  auto lane = clients_[kB]->open_push_lane({.pages = 16, .group_pages = 4}).value();
  const PushedPage request = {test_key(1), 0, kPageBytes};
  PageVerdict verdict;
  do {  // `read_window` is short for a busy machine
    verdict = {};
    lane.push({&request, 1}, {&verdict, 1}, engine(kB).deadline(kPatientNs)).wait();
  } while (verdict.reason == Reason::kStalled);
  EXPECT_EQ(verdict.verdict, Verdict::kRecompute);
  EXPECT_EQ(verdict.reason, Reason::kMiss);
}

INSTANTIATE_TEST_SUITE_P(Paths, ShmTenants, ::testing::Values(Path::kShm));

class RefusingTenants : public TenantsTest {
 protected:
  RefusingTenants() : TenantsTest(refusing()) {}
  static NodeOptions refusing() {
    NodeOptions options = small_options();
    options.evict = false;
    return options;
  }
};

TEST_P(RefusingTenants, OverItsQuotaIsRefusedAndTheOtherIsNot) {
  ::testing::internal::CaptureStderr();
  Code code = Code::kOk;
  uint64_t stored = 0;
  // The node says it at the end of the put's time, which its answer may miss on a busy machine.
  uint64_t late = 0;
  while (stored < 1'000 && late < 20) {
    code = engine(kA).put(test_key(stored), 1, kSecond).code;
    if (code == Code::kTimeout) {
      ++late;
    } else if (code == Code::kOk) {
      ++stored;
    } else {
      break;
    }
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, Code::kExhausted);
  EXPECT_LE(stored * kPageBytes, kMiB);
  EXPECT_GT(stored * kPageBytes, kMiB * 3 / 4);
  EXPECT_NE(said.find("the tenant 'a' are refused, for its quota of 1 MiB"), std::string::npos)
      << said;
  EXPECT_NE(said.find("tenant.a.quota_bytes"), std::string::npos) << said;
  EXPECT_EQ(status(kA).tenants.at(0).puts_refused, 1 + late);
  EXPECT_EQ(fetch(kA, 0), 1);
  EXPECT_EQ(put(kB, 0, 2), Code::kOk);
  EXPECT_EQ(status(kB).tenants.at(0).puts_refused, 0u);
}

INSTANTIATE_TEST_SUITE_P(Paths, RefusingTenants, ::testing::Values(Path::kShm));

}  // namespace
}  // namespace farpage
