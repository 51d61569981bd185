// Nodes and a register that say what is not so.
#include <functional>
#include <memory>
#include <span>

#include "integrity/page_header.h"
#include "tests/tier/fleet.h"
#include "transport/forwarding_fabric.h"

namespace farpage {
namespace {

// A node whose memory the test can write.
class OpenFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;
  Result<Region> allocate_readable(uint64_t bytes) override {
    auto region = ForwardingFabric::allocate_readable(bytes);
    if (region) memory.emplace_back(region->data(), bytes);
    return region;
  }

  // Of the page, in its slot.
  PageHeader* header_of(const PageKey& key) {
    for (const auto& range : memory) {
      constexpr uint64_t kSlot = kPageBytes + sizeof(PageHeader);
      for (uint64_t at = 0; at + kSlot <= range.size(); at += kSlot) {
        auto* header = reinterpret_cast<PageHeader*>(range.data() + at);
        if (header->magic == kPageMagic && header->key == key && header->live != 0) return header;
      }
    }
    return nullptr;
  }

  std::vector<std::span<std::byte>> memory;
};

// A replica whose header is whole, and says what is not so.
class LyingReplica : public FleetTest {
 protected:
  LyingReplica() : FleetTest(with_open_nodes()) {}

  static SimClusterOptions with_open_nodes() {
    SimClusterOptions options = three_nodes();
    options.clients = 2;
    options.wrap_node = [](size_t node, sim::SimFabric& own) {
      auto open = std::make_unique<OpenFabric>(own);
      if (open_nodes.size() <= node) open_nodes.resize(node + 1);
      open_nodes[node] = open.get();
      return open;
    };
    return options;
  }
  // At a node that has the page; the lie is live, and its CRCs are right.
  void lie(size_t node, const PageKey& key, const PageKey& said, Version version) {
    PageHeader* header = open_nodes[node]->header_of(key);
    ASSERT_NE(header, nullptr);
    *header = make_page_header(said, version, header->incarnation, header->payload_bytes,
                               header->payload_crc);
    header->live = live_token(said, version, header->incarnation);
  }

  static inline std::vector<OpenFabric*> open_nodes;  // made before the fixture's own members
};

TEST_F(LyingReplica, VersionHigherThanAnyGivenOutIsCorrupt) {
  const PageKey key = test_key(1);
  const PutResult put = engine().put(key, 1);
  ASSERT_EQ(put.code, Code::kOk);
  lie(nodes_of(key)[0], key, key, make_version(version_epoch(put.version) + 1, 1));
  const PageVerdict verdict = engine().fetch(key);
  ASSERT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(verdict.version, put.version);
  EXPECT_EQ(verdict.replicas, 2);
  run_for(kMillisecond);
  EXPECT_EQ(metric("farpage_client_reports_total"), 1);
}

// Its primary may have begun anew meanwhile; but then somebody would have told of it.
TEST_F(LyingReplica, VersionThatNobodyHasToldOfIsCorruptThoughThePrimaryIsSilent) {
  const PageKey key = test_key(1);
  const PutResult put = engine().put(key, 1);
  ASSERT_EQ(put.code, Code::kOk);
  const auto nodes = nodes_of(key);
  cluster_.part(cluster_.client_host(0), cluster_.node_host(nodes[0]));
  run_for(2 * kView);
  ASSERT_EQ(engine().fetch(key).verdict, Verdict::kReady);
  lie(nodes[1], key, key, make_version(version_epoch(put.version) + 1, 1));
  EXPECT_EQ(engine().fetch(key).reason, Reason::kCorrupt);
  run_for(kMillisecond);
  EXPECT_EQ(engine().fetch(key).reason, Reason::kCorrupt) << "the replica knows of no such epoch";
}

// The epoch is higher than any that this client has heard of, until the replica is asked.
TEST_F(LyingReplica,
       PageOfAPrimaryThatBeganAnewWhereThisClientDoesNotReachItIsReadyAtTheSecondLook) {
  const PageKey key = test_key(1);
  const PutResult before = engine().put(key, 1);
  ASSERT_EQ(before.code, Code::kOk);
  const auto nodes = nodes_of(key);
  cluster_.end_node(NodeEnd::kPowerLost, nodes[0]);
  cluster_.start_node(nodes[0]);
  cluster_.part(cluster_.client_host(0), cluster_.node_host(nodes[0]));
  run_for(10 * kView);
  ClientOptions options;
  options.staging_bytes = 64 * kKiB;
  const auto other = cluster_.connect(1, options).value();
  run_for(10 * kView);
  Engine writer(*other, kPageBytes, 4);
  const PutResult put = writer.put(key, 2);
  ASSERT_EQ(put.code, Code::kOk) << code_name(put.code);
  ASSERT_GT(version_epoch(put.version), version_epoch(before.version));
  EXPECT_EQ(engine().fetch(key).reason, Reason::kCorrupt);
  run_for(kMillisecond);
  const PageVerdict verdict = engine().fetch(key);
  ASSERT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(verdict.version, put.version);
  EXPECT_EQ(engine().put_number_of(key), 2u);
}

// It learns from the replica's hello what the primary would have said.
TEST_F(LyingReplica, ClientThatNeverReachedThePrimaryReadsItsPagesAtOnce) {
  const PageKey key = test_key(1);
  const auto nodes = nodes_of(key);
  cluster_.end_node(NodeEnd::kPowerLost, nodes[0]);
  cluster_.start_node(nodes[0]);
  run_for(10 * kView);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  cluster_.end_node(NodeEnd::kPowerLost, nodes[0]);
  ClientOptions options;
  options.staging_bytes = 0;
  const auto other = cluster_.connect(1, options).value();
  Engine reader(*other, kPageBytes, 1);
  const PageVerdict verdict = reader.fetch(key);
  ASSERT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(reader.put_number_of(key), 1u);
}

TEST_F(LyingReplica, PageOfAnotherKeyIsNotTaken) {
  const PageKey key = test_key(1);
  const PutResult put = engine().put(key, 1);
  ASSERT_EQ(put.code, Code::kOk);
  lie(nodes_of(key)[0], key, test_key(2), put.version);
  const PageVerdict verdict = engine().fetch(key);
  ASSERT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(engine().put_number_of(key), 1u);
  EXPECT_EQ(verdict.replicas, 2);
}

// A register whose word a test changes on its way.
class EditedRegister final : public EpochRegister {
 public:
  explicit EditedRegister(EpochRegister& inner) : inner_(inner) {}
  void read(std::function<void(Result<RegisteredEpoch>)> done) override {
    inner_.read([this, done = std::move(done)](Result<RegisteredEpoch> read) {
      if (read && edit) edit(read->epoch);
      done(std::move(read));
    });
  }
  void replace(uint64_t current, Epoch next, std::function<void(Result<void>)> done) override {
    inner_.replace(current, std::move(next), std::move(done));
  }
  void confirm(NodeId node, uint64_t number, std::function<void(Result<void>)> done) override {
    inner_.confirm(node, number, std::move(done));
  }
  std::function<void(Epoch&)> edit;

 private:
  EpochRegister& inner_;
};

// Leads to a node that tells nothing of its view, as one does whose view has ended.
class UntellingDialer final : public ControlDialer {
 public:
  explicit UntellingDialer(ControlDialer& inner) : inner_(inner) {}
  void dial(DialCallback done) override {
    inner_.dial([done = std::move(done)](Result<std::shared_ptr<ControlLink>> link) {
      if (link) *link = std::make_shared<Link>(std::move(*link));
      done(std::move(link));
    });
  }

 private:
  struct Link final : ControlLink {
    explicit Link(std::shared_ptr<ControlLink> to) : inner(std::move(to)) {}
    void call(Request request, ReplyCallback done) override {
      inner->call(std::move(request), [done = std::move(done)](Result<Reply> reply) {
        auto* renewed = reply ? std::get_if<RenewReply>(&*reply) : nullptr;
        auto* epoch = reply ? std::get_if<EpochReply>(&*reply) : nullptr;
        if (renewed != nullptr) renewed->epoch = {};
        if (epoch != nullptr) *epoch = {};
        done(std::move(reply));
      });
    }
    void close() override { inner->close(); }
    const Peer& peer() const override { return inner->peer(); }
    const std::shared_ptr<ControlLink> inner;
  };

  ControlDialer& inner_;
};

class ChangedRegister : public RegisteredFleet {
 protected:
  ChangedRegister() : edited_(*fleet_.epochs) {
    Fleet fleet = fleet_;
    fleet.epochs = &edited_;
    fleet.dialer = [this](NodeId node) -> ControlDialer& {
      return dialers_.try_emplace(node, fleet_.dialer(node)).first->second;
    };
    ClientOptions options;
    options.staging_bytes = 64 * kKiB;
    second_ = connect(options, fleet).value();
    run_for(kView);
    reader_.emplace(*second_, kPageBytes, 4);
    EXPECT_EQ(engine().put(key_, 1).code, Code::kOk);
    EXPECT_EQ(reader_->fetch(key_).verdict, Verdict::kReady);
  }

  const PageKey key_ = test_key(1);
  EditedRegister edited_;
  std::map<NodeId, UntellingDialer> dialers_;
  std::unique_ptr<Client> second_;
  std::optional<Engine> reader_;
};

TEST_F(ChangedRegister, EpochThatGoesBackwardsIsRefused) {
  edited_.edit = [](Epoch& epoch) { --epoch.number; };
  run_for(kView / 2);
  EXPECT_EQ(reader_->fetch(key_).verdict, Verdict::kReady);  // the view lasts
  run_for(kView);
  EXPECT_EQ(reader_->fetch(key_).reason, Reason::kUnreachable);
  edited_.edit = nullptr;
  run_for(kView);
  EXPECT_EQ(reader_->fetch(key_).verdict, Verdict::kReady);
}

// Each time that the register loses its data is told of, and not the first alone.
TEST_F(ChangedRegister, SecondRefusalIsToldOfToo) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    edited_.edit = [](Epoch& epoch) { --epoch.number; };
    run_for(2 * kView);
    edited_.edit = nullptr;
    run_for(kView);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 2) << said;
}

TEST_F(ChangedRegister, OneNumberIsNotTakenForTwoEpochs) {
  edited_.edit = [](Epoch& epoch) { ++epoch.seed; };
  run_for(2 * kView);
  EXPECT_EQ(reader_->fetch(key_).reason, Reason::kUnreachable);
}

TEST_F(ChangedRegister, NodeOfAnotherRunThanTheEpochNamesIsNotRead) {
  edited_.edit = [](Epoch& epoch) {
    ++epoch.number;
    for (Member& member : epoch.members) ++member.incarnation;
  };
  run_for(kView);
  EXPECT_EQ(reader_->fetch(key_).reason, Reason::kUnreachable);
}

// As where the register is one fleet's, and the nodes let the client in to another's.
TEST_F(ChangedRegister, NodesOfOtherRunsThanTheEpochNamesAreNoneToConnectTo) {
  EditedRegister edited(*fleet_.epochs);
  edited.edit = [](Epoch& epoch) {
    for (Member& member : epoch.members) ++member.incarnation;
  };
  Fleet fleet = fleet_;
  fleet.epochs = &edited;
  ClientOptions options;
  options.connect_ms = 100;
  const auto third = connect(options, fleet);
  ASSERT_FALSE(third.has_value());
  EXPECT_EQ(third.error().code, Code::kUnavailable);
  EXPECT_NE(third.error().message.find("is not a member of this fleet's epoch"), std::string::npos)
      << third.error().message;
}

// A client of a later epoch than its nodes is in nobody's; it looks at the register and tries
// again.
TEST_F(ChangedRegister, PutThatIsRefusedForItsEpochIsTriedAgain) {
  edited_.edit = [](Epoch& epoch) { ++epoch.number; };
  run_for(kView);
  EXPECT_NE(reader_->put(key_, 2, 50 * kMillisecond).code, Code::kOk);
  EXPECT_EQ(engine().fetch(key_).verdict, Verdict::kReady);
  EXPECT_EQ(engine().put_number_of(key_), 1u);
}

}  // namespace
}  // namespace farpage
