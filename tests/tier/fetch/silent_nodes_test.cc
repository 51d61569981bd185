// A fetch of many pages, of which some are on nodes that say nothing: the others have room.
#include "tests/tier/fleet.h"
#include "transport/forwarding_fabric.h"
#include "transport/forwarding_initiator.h"

namespace farpage {
namespace {

constexpr size_t kNodes = 4;
constexpr size_t kSilent = 2;  // the first of them
constexpr size_t kPages = 6 * Lane::kWindow;
constexpr uint64_t kDeadlineNs = 60 * kMillisecond;
constexpr uint64_t kSoonNs = 30 * kMillisecond;

SimClusterOptions four_nodes(uint64_t page_bytes, size_t pages) {
  SimClusterOptions options;
  options.nodes = kNodes;
  options.node.page_bytes = page_bytes;
  options.node.pool_bytes = pages * (page_bytes + sizeof(PageHeader));
  options.node.lease_ms = 400;
  options.node.reuse_ms = 200;
  return options;
}

class SilentNodes : public testing::Test {
 protected:
  explicit SilentNodes(const SimClusterOptions& options = four_nodes(kPageBytes, kPages),
                       size_t pages = kPages)
      : cluster_(1, options),
        page_bytes_(options.node.page_bytes),
        pages_(pages),
        requests_(pages),
        verdicts_(pages) {
    connect();
    run_for(2 * options.node.lease_ms * kMillisecond);  // until they take puts
    for (size_t i = 0; i < pages; ++i) {
      EXPECT_EQ(engine_->put(test_key(i), 1).code, Code::kOk);
    }
    fetch_all(kSecond);
    EXPECT_EQ(ready(), pages_);
  }

  // Over the cluster's own fabric, or one that forwards to it.
  void connect(Fabric* through = nullptr) {
    engine_.reset();
    client_.reset();
    ClientOptions options;
    options.staging_bytes = std::max(64 * kKiB, 4 * page_bytes_);
    sim::SimFabric& fabric = cluster_.client_fabric(0);
    client_ = Client::connect(options, fabric.runtime(), through == nullptr ? fabric : *through,
                              cluster_.fleet_for_client(0))
                  .value();
    engine_.emplace(*client_, page_bytes_, pages_);
  }
  void run_for(uint64_t ns) { cluster_.world().run_until(cluster_.now_ns() + ns); }
  bool is_silent(size_t page) {
    const Epoch list = cluster_.fleet_for_client(0).list;
    return Placement(list).replicas(test_key(page)).primary() < kSilent;
  }

  Fetch fetch(uint64_t in_ns) {
    for (size_t i = 0; i < pages_; ++i) requests_[i] = {test_key(i), 0, engine_->slice(i)};
    channels_ended_ = engine_->lane().stats().channels_ended;
    begun_ns_ = cluster_.now_ns();
    return engine_->lane().fetch(requests_, verdicts_, engine_->deadline(in_ns));
  }
  void fetch_all(uint64_t in_ns) {
    Fetch all = fetch(in_ns);
    all.wait();
    ended_ns_ = cluster_.now_ns();
  }
  size_t ready() const {
    return static_cast<size_t>(
        std::ranges::count(verdicts_, Verdict::kReady, &PageVerdict::verdict));
  }
  // All the others' pages came, and soon; and each silent node's have their verdict in time.
  void expect_others_ready() {
    EXPECT_LE(ended_ns_, begun_ns_ + kDeadlineNs);
    size_t others = 0;
    for (size_t i = 0; i < pages_; ++i) {
      if (is_silent(i)) {
        EXPECT_EQ(verdicts_[i].verdict, Verdict::kRecompute);
        continue;
      }
      ++others;
      EXPECT_EQ(verdicts_[i].verdict, Verdict::kReady) << i;
      EXPECT_LE(verdicts_[i].took_ns, kSoonNs) << i;
      EXPECT_EQ(engine_->put_number_of(test_key(i), i), 1u) << i;
    }
    EXPECT_GT(others, pages_ / 4);
    EXPECT_LT(others, pages_ - pages_ / 4);
  }

  SimCluster cluster_;
  const uint64_t page_bytes_;
  const size_t pages_;
  std::unique_ptr<Client> client_;
  std::optional<Engine> engine_;
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_;
  uint64_t channels_ended_ = 0;
  uint64_t begun_ns_ = 0;
  uint64_t ended_ns_ = 0;
};

TEST_F(SilentNodes, LeaveRoomForTheOthers) {
  for (size_t node = 0; node < kSilent; ++node) cluster_.end_node(NodeEnd::kPowerLost, node);
  fetch_all(kDeadlineNs);
  expect_others_ready();
}

// Reads that all take longer than a lane hears nothing for are no silence that costs a page: none
// is given up, and no path.
TEST_F(SilentNodes, ThatWereOnlySlowHaveEveryPageReady) {
  for (const uint64_t slow_ns : {8 * kMillisecond, 25 * kMillisecond, 8 * kMillisecond}) {
    cluster_.set_network({.delay_min_ns = slow_ns, .delay_max_ns = slow_ns});
    fetch_all(kSecond);
    EXPECT_EQ(ready(), pages_);
    EXPECT_EQ(engine_->lane().stats().channels_ended, channels_ended_);
    EXPECT_EQ(engine_->lane().stats().next_replicas, 0u);
  }
}

// Reads of before, which took long, do not hide it.
TEST_F(SilentNodes, ThatWereSlowBeforeLeaveRoomToo) {
  cluster_.set_network({.delay_min_ns = 8 * kMillisecond, .delay_max_ns = 8 * kMillisecond});
  fetch_all(kSecond);
  cluster_.set_network({});
  for (size_t node = 0; node < kSilent; ++node) cluster_.end_node(NodeEnd::kPowerLost, node);
  fetch_all(kDeadlineNs);
  expect_others_ready();
}

// A new client's dials of them have no answer: its pages wait for paths.
TEST_F(SilentNodes, ThatNoDialReachesLeaveRoomToo) {
  connect();
  for (size_t node = 0; node < kSilent; ++node) {
    cluster_.part(cluster_.client_host(0), cluster_.node_host(node));
  }
  fetch_all(kDeadlineNs);
  expect_others_ready();
}

TEST_F(SilentNodes, WhoseViewsHaveEndedLeaveRoomToo) {
  for (size_t node = 0; node < kSilent; ++node) cluster_.end_node(NodeEnd::kPowerLost, node);
  fetch_all(kDeadlineNs);
  run_for(kSecond);
  fetch_all(kDeadlineNs);
  expect_others_ready();
}

// Another fetch, which has as much time, comes behind one that waits for them alone.
TEST_F(SilentNodes, AreNoReasonForAnotherFetchToWait) {
  for (size_t node = 0; node < kSilent; ++node) cluster_.end_node(NodeEnd::kPowerLost, node);
  std::vector<PageRequest> in_vain, in_reach;
  for (size_t i = 0; i < pages_; ++i) {
    (is_silent(i) ? in_vain : in_reach).push_back({test_key(i), 0, engine_->slice(i)});
  }
  std::vector<PageVerdict> never(in_vain.size()), soon(in_reach.size());
  const uint64_t deadline_ns = engine_->deadline(kDeadlineNs);
  Fetch first = engine_->lane().fetch(in_vain, never, deadline_ns);
  Fetch second = engine_->lane().fetch(in_reach, soon, deadline_ns);
  second.wait();
  for (const PageVerdict& verdict : soon) {
    EXPECT_EQ(verdict.verdict, Verdict::kReady);
    EXPECT_LE(verdict.took_ns, kSoonNs);
  }
  first.wait();
}

// What is under way is bounded by its bytes, long before a lane's places are taken.
class SilentNodesOfLargePages : public SilentNodes {
 protected:
  static constexpr uint64_t kLargeBytes = 256 * kKiB;
  static constexpr size_t kLargePages = 160;
  SilentNodesOfLargePages() : SilentNodes(four_nodes(kLargeBytes, kLargePages), kLargePages) {}
};

TEST_F(SilentNodesOfLargePages, LeaveRoomForTheOthers) {
  for (size_t node = 0; node < kSilent; ++node) cluster_.end_node(NodeEnd::kPowerLost, node);
  fetch_all(kDeadlineNs);
  expect_others_ready();
}

// Two fetches of a new client, each of which wants more pages than a lane has places.
TEST_F(SilentNodes, ThatNoDialReachesDelayNoFetchWithLessTime) {
  connect();
  for (size_t node = 0; node < kSilent; ++node) {
    cluster_.part(cluster_.client_host(0), cluster_.node_host(node));
  }
  Fetch patient = fetch(kSecond);
  std::vector<PageRequest> urgent = requests_;
  std::vector<PageVerdict> soon(pages_);
  engine_->lane().fetch(urgent, soon, engine_->deadline(kDeadlineNs / 2)).wait();
  for (size_t i = 0; i < pages_; ++i) {
    EXPECT_EQ(soon[i].verdict, is_silent(i) ? Verdict::kRecompute : Verdict::kReady) << i;
  }
  patient.wait();
  EXPECT_EQ(ready(),
            static_cast<size_t>(std::ranges::count(soon, Verdict::kReady, &PageVerdict::verdict)));
}

// One after the other, each with little time.
TEST_F(SilentNodes, LeaveRoomForFetchAfterFetch) {
  for (size_t node = 0; node < kSilent; ++node) cluster_.end_node(NodeEnd::kPowerLost, node);
  for (int i = 0; i < 12; ++i) {
    fetch_all(15 * kMillisecond);
    for (size_t page = 0; page < pages_; ++page) {
      EXPECT_EQ(verdicts_[page].verdict, is_silent(page) ? Verdict::kRecompute : Verdict::kReady)
          << i;
    }
  }
}

// Of the largest pages two are under way at one time.
class SilentNodesOfHugePages : public SilentNodes {
 protected:
  static constexpr uint64_t kHugeBytes = 16 * kMiB;
  static constexpr size_t kHugePages = 12;
  SilentNodesOfHugePages() : SilentNodes(four_nodes(kHugeBytes, kHugePages), kHugePages) {}
};

TEST_F(SilentNodesOfHugePages, LeaveRoomForTheOthers) {
  connect();
  for (size_t node = 0; node < kSilent; ++node) cluster_.end_node(NodeEnd::kPowerLost, node);
  fetch_all(kDeadlineNs);
  expect_others_ready();
}

// A channel has room for a window of pages, and a lane has more places.
class MostInFlight final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;

  size_t most() const { return most_; }
  size_t posted() const { return posted_; }
  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    auto initiator = ForwardingFabric::connect(std::move(offer), deadline_ns);
    if (!initiator) return initiator;
    return std::make_unique<Counted>(std::move(*initiator), *this);
  }

 private:
  class Counted final : public ForwardingInitiator {
   public:
    Counted(std::unique_ptr<Initiator> inner, MostInFlight& all)
        : ForwardingInitiator(std::move(inner)), all_(all) {}
    Operation& next() override {
      all_.most_ = std::max(all_.most_, ++in_flight_);
      ++all_.posted_;
      return ForwardingInitiator::next();
    }
    size_t poll(std::span<Completion> completions) override {
      const size_t count = ForwardingInitiator::poll(completions);
      in_flight_ -= count;
      return count;
    }

   private:
    MostInFlight& all_;
    size_t in_flight_ = 0;
  };

  size_t most_ = 0;
  size_t posted_ = 0;
};

// Neither pages of the fetch that found them silent ask them, nor those of another.
TEST_F(SilentNodes, AreAskedNothingNew) {
  MostInFlight fabric(cluster_.client_fabric(0));
  connect(&fabric);
  fetch_all(kSecond);
  for (size_t node = 0; node < kSilent; ++node) cluster_.end_node(NodeEnd::kPowerLost, node);
  std::vector<PageRequest> in_vain;
  for (size_t i = 0; i < pages_; ++i) {
    if (is_silent(i)) in_vain.push_back({test_key(i), 0, engine_->slice(i)});
  }
  std::vector<PageVerdict> never(in_vain.size()), neither(in_vain.size());
  const size_t before = fabric.posted();
  Fetch first = engine_->lane().fetch(in_vain, never, engine_->deadline(kSecond / 2));
  EXPECT_FALSE(first.wait_released(cluster_.now_ns() + 50 * kMillisecond));
  const size_t asked = fabric.posted();
  EXPECT_GT(asked, before);
  Fetch second = engine_->lane().fetch(in_vain, neither, engine_->deadline(kSecond / 4));
  second.wait();
  EXPECT_EQ(fabric.posted(), asked);
  first.wait();
}

TEST(SilentNodesOfAnEpoch, ThatEndsLeaveTheOneThatIsLeftNoMoreThanItsWindow) {
  SimClusterOptions options = four_nodes(kPageBytes, kPages);
  options.nodes = 2;
  options.uses_register = true;
  // The epoch leaves the lost node out long before its views end.
  options.node.lease_ms = 2'000;
  options.epochs.detect_ns = 100 * kMillisecond;
  SimCluster cluster(1, options);
  MostInFlight fabric(cluster.client_fabric(0));
  const auto client = cluster.connect(0, {}, &fabric).value();
  cluster.world().run_until(2 * options.node.lease_ms * kMillisecond);
  Engine engine(*client, kPageBytes, kPages);
  std::vector<PageRequest> requests;
  for (size_t i = 0; i < kPages; ++i) requests.push_back({test_key(i), 0, engine.slice(i)});
  std::vector<PageVerdict> verdicts(kPages);
  engine.lane().fetch(requests, verdicts, engine.deadline(kSecond)).wait();  // paths to both
  cluster.end_node(NodeEnd::kPowerLost, 0);
  const uint64_t begun_ns = cluster.now_ns();
  engine.lane().fetch(requests, verdicts, engine.deadline(10 * kSecond)).wait();
  EXPECT_LT(cluster.now_ns(), begun_ns + 2 * kSecond) << "once the epoch names one node";
  EXPECT_EQ(cluster.epochs()->current().epoch.members.size(), 1u);
  for (const PageVerdict& verdict : verdicts) EXPECT_EQ(verdict.reason, Reason::kMiss);
  EXPECT_LE(fabric.most(), 2 * Lane::kWindow);
}

}  // namespace
}  // namespace farpage
