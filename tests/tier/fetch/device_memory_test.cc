// Requests whose memory is a GPU's: refused where only host memory can be used, and never touched
// by the CPU.
#include "tests/tier/ahead/prefetch_fixture.h"
#include "tests/tier/fetch/checks/late_checkers.h"
#include "tests/tier/fetch/device_fabric.h"
#include "tests/tier/fleet.h"

namespace farpage {
namespace {

constexpr MemoryPlace kGpu = {MemoryKind::kCuda, 0};
constexpr MemoryPlace kOtherGpu = {MemoryKind::kCuda, 1};

// The processor faults where it looks there.
Slice device_slice(Slice registered) {
  registered.data = reinterpret_cast<std::byte*>(uintptr_t{0x10000});
  registered.place = kGpu;
  return registered;
}

// Over a backend that moves host memory alone.
TEST_F(FleetTest, PageForMemoryThatTheBackendCannotLandInIsRecomputedAndTheOthersCome) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(engine().put(test_key(i), i).code, Code::kOk);
  std::vector<PageRequest> requests;
  for (size_t i = 0; i < 4; ++i) requests.push_back({test_key(i), 0, engine().slice(i)});
  requests[1].destination = device_slice(requests[1].destination);
  requests[3].destination.place = kGpu;  // wherever its registration is
  std::ranges::fill(engine().frame(3), std::byte{0xEE});
  std::vector<PageVerdict> verdicts(4);
  const uint64_t began_ns = now();
  Fetch fetch = engine().lane().fetch(requests, verdicts, engine().deadline(), {.hedge = true});
  fetch.wait();
  EXPECT_EQ(verdicts[0].verdict, Verdict::kReady);
  EXPECT_EQ(verdicts[1].reason, Reason::kUnreachable);
  EXPECT_EQ(verdicts[1].place, Place::kReleased);
  EXPECT_EQ(verdicts[2].verdict, Verdict::kReady);
  EXPECT_EQ(verdicts[3].reason, Reason::kUnreachable);
  EXPECT_EQ(std::ranges::count(engine().frame(3), std::byte{0xEE}), kPageBytes);
  EXPECT_LT(now() - began_ns, kSecond) << "and not at the deadline";
  EXPECT_TRUE(fetch.released());
}

TEST_F(FleetTest, PageInMemoryThatTheProcessorCannotReadIsNotPutAndTheOthersAre) {
  std::vector<PutRequest> requests;
  for (size_t i = 0; i < 3; ++i) {
    fill_page(engine().frame(i), test_key(i), 7);
    requests.push_back({test_key(i), engine().slice(i)});
  }
  requests[1].source = device_slice(requests[1].source);
  Put put = client_->put(requests, engine().deadline());
  const auto results = put.wait();
  EXPECT_EQ(results[0].code, Code::kOk);
  EXPECT_EQ(results[1].code, Code::kInvalid);
  EXPECT_EQ(results[2].code, Code::kOk);
  EXPECT_EQ(engine().fetch(test_key(1)).reason, Reason::kMiss);
}

// Pages fetched ahead lie in host memory: a reader in a GPU cannot be lent them.
TEST_F(PrefetchTest, PageThatIsHereIsNotLentToWhoReadsInAGpu) {
  put_all(4);
  hear_of(4);
  bring({1});
  const PageRequest request = {test_key(1), 0, device_slice(engine_.slice(0))};
  PageVerdict verdict;
  {
    DemandFetch fetch = lane_.fetch({&request, 1}, {&verdict, 1}, now() + kSecond);
    fetch.wait();
    EXPECT_EQ(verdict.reason, Reason::kUnreachable);
    EXPECT_EQ(verdict.landed, nullptr);
  }
  EXPECT_EQ(lane_.report().lent, 0u);
  expect_accounted(lane_.report(), 0);
  // It is there for whoever can read it.
  const Demand demand = demand_now({1});
  EXPECT_EQ(put_number(demand), 101u);
  EXPECT_EQ(lane_.report().lent, 1u);
}

// Over a backend that lands in GPUs too, for which host memory stands in.
class LandsInGpus : public FleetTest {
 protected:
  static constexpr size_t kPages = 8;

  explicit LandsInGpus(const SimClusterOptions& options = three_nodes()) : FleetTest(options) {
    for (uint64_t i = 0; i < kPages; ++i) {
      EXPECT_EQ(engine().put(test_key(i), i).code, Code::kOk);
    }
  }
  void open(const ClientOptions& options) {
    client_of_gpus_ =
        Client::connect(options, cluster_.client_fabric(0).runtime(), device_, fleet_).value();
    run_for(10 * kView);
    for (const MemoryPlace place : {MemoryPlace(), kGpu, kOtherGpu}) {
      memories_.push_back(Mapping::anonymous(kPages * kPageBytes).value());
      regions_.push_back(
          client_of_gpus_
              ->register_memory({memories_.back().data(), memories_.back().bytes(), place})
              .value());
    }
    lane_.emplace(client_of_gpus_->open_lane().value());
  }
  void TearDown() override {
    lane_.reset();
    regions_.clear();
    client_of_gpus_.reset();
  }
  std::vector<PageVerdict> fetch(const std::vector<size_t>& regions,
                                 const FetchOptions& options = {}) {
    requests_.clear();
    for (size_t i = 0; i < regions.size(); ++i) {
      requests_.push_back({test_key(i), 0, regions_[regions[i]].slice(i * kPageBytes, kPageBytes)});
    }
    std::vector<PageVerdict> verdicts(requests_.size());
    Fetch fetch = lane_->fetch(requests_, verdicts, engine().deadline(), options);
    fetch.wait_released(kNever);
    return verdicts;
  }
  bool holds_page(size_t i) {
    std::vector<std::byte> page(kPageBytes);
    fill_page(page, test_key(i), i);
    return std::equal(page.begin(), page.end(), requests_[i].destination.data);
  }

  DeviceFabric device_{faulty_};
  std::unique_ptr<Client> client_of_gpus_;
  std::vector<Mapping> memories_;
  std::vector<Region> regions_;
  std::optional<Lane> lane_;
  std::vector<PageRequest> requests_;
};

TEST_F(LandsInGpus, EachPageIsCheckedInTheMemoryThatItLandedIn) {
  LateCheckers checkers;
  checkers.polls = [] { return 2; };
  ClientOptions options;
  options.checkers = &checkers;
  open(options);
  const auto verdicts = fetch({0, 1, 2, 1, 0});
  for (size_t i = 0; i < verdicts.size(); ++i) {
    EXPECT_EQ(verdicts[i].verdict, Verdict::kReady) << reason_name(verdicts[i].reason);
    EXPECT_EQ(verdicts[i].landed, requests_[i].destination.data);
    EXPECT_TRUE(holds_page(i));
  }
  EXPECT_EQ(std::ranges::count(checkers.places, MemoryPlace()), 2);
  EXPECT_EQ(std::ranges::count(checkers.places, kGpu), 2);
  EXPECT_EQ(std::ranges::count(checkers.places, kOtherGpu), 1);
  lane_.reset();
}

// By default only host memory can be checked, and no page is ready that nobody has checked.
TEST_F(LandsInGpus, PageThatNobodyCanCheckThereIsRecomputed) {
  open({});
  const auto verdicts = fetch({0, 1, 0});
  EXPECT_EQ(verdicts[0].verdict, Verdict::kReady);
  EXPECT_EQ(verdicts[1].reason, Reason::kUnreachable);
  EXPECT_EQ(verdicts[1].place, Place::kReleased);
  EXPECT_EQ(verdicts[2].verdict, Verdict::kReady);
}

class SlowLandsInGpus : public LandsInGpus {
 protected:
  SlowLandsInGpus() : LandsInGpus(slow_at_times()) {}
  // Now and then a read takes long enough for a hedge.
  static SimClusterOptions slow_at_times() {
    SimClusterOptions options = three_nodes();
    options.node.lease_ms = 2'000;
    options.node.reuse_ms = 100;
    options.network.delay_max_ns = 100 * kMicrosecond;
    options.network.reorder = 1;
    return options;
  }
};

// A hedge lands in host memory: who reads in a GPU could not look there.
TEST_F(SlowLandsInGpus, PageForAGpuIsNotHedged) {
  LateCheckers checkers;
  ClientOptions options;
  options.checkers = &checkers;
  open(options);
  for (int i = 0; i < 300; ++i) fetch({1, 1, 1, 1}, {.hedge = true});
  EXPECT_EQ(lane_->stats().hedges, 0u);
  for (int i = 0; i < 300; ++i) fetch({0, 0, 0, 0}, {.hedge = true});
  EXPECT_GT(lane_->stats().hedges, 0u) << "as it was meant";
  lane_.reset();
}

}  // namespace
}  // namespace farpage
