// Nodes that join a register's fleet only once they and its members have reached each other, in
// virtual time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/node/raw_client.h"
#include "transport/forwarding_fabric.h"

namespace farpage {
namespace {

constexpr uint64_t kMeet = kSecond;

class MeetingTest : public testing::Test {
 protected:
  SimCluster& start(SimClusterOptions options = {}) {
    options.nodes = 3;
    options.replicas = 2;
    options.uses_register = true;
    options.meet_ns = kMeet;
    options.cannot_join = [this](size_t node, const std::string& why) {
      gave_up_.emplace_back(node, why);
    };
    cluster_ = std::make_unique<SimCluster>(1, options);
    client_ = std::make_unique<RawClient>(*cluster_);
    return *cluster_;
  }
  // Runs, and members all there are.
  std::vector<size_t> members() {
    std::vector<size_t> there;
    for (size_t node = 0; node < cluster_->nodes(); ++node) {
      const Member* member =
          cluster_->epochs()->current().epoch.find(node_id("n" + std::to_string(node)));
      if (member != nullptr && member->incarnation != 0) there.push_back(node);
    }
    return there;
  }
  bool wait_for_members(const std::vector<size_t>& wanted) {
    return client_->wait_for([&] {
      return members() == wanted &&
             cluster_->epochs()->current().epoch.members.size() == wanted.size() &&
             cluster_->epochs()->current().all_confirmed();
    });
  }
  void let_fall_out(size_t node) {
    cluster_->end_node(NodeEnd::kPowerLost, node);
    std::vector<size_t> others;
    for (size_t other = 0; other < 3; ++other) {
      if (other != node) others.push_back(other);
    }
    ASSERT_TRUE(wait_for_members(others));
  }

  using Nodes = std::vector<size_t>;
  std::vector<std::pair<size_t, std::string>> gave_up_;
  std::unique_ptr<SimCluster> cluster_;
  std::unique_ptr<RawClient> client_;
};

TEST_F(MeetingTest, NodesThatReachEachOtherJoinAndTakePuts) {
  start();
  ASSERT_TRUE(wait_for_members({0, 1, 2}));
  client_->run_for(100 * kMillisecond);
  for (uint64_t number = 0; number < 10; ++number) {
    EXPECT_EQ(client_->put(number, 1).code, Code::kOk);
  }
  EXPECT_TRUE(gave_up_.empty());
}

TEST_F(MeetingTest, NodeThatComesBackJoinsAgain) {
  start();
  ASSERT_TRUE(wait_for_members({0, 1, 2}));
  let_fall_out(1);
  cluster_->start_node(1);
  EXPECT_TRUE(wait_for_members({0, 1, 2}));
}

// One of the members alone, and the register hears of both.
TEST_F(MeetingTest, NodeThatOneMemberDoesNotReachStaysOutAndCostsNobodyAPut) {
  start();
  ASSERT_TRUE(wait_for_members({0, 1, 2}));
  let_fall_out(2);
  cluster_->part(cluster_->node_host(2), cluster_->node_host(1));
  cluster_->start_node(2);
  client_->run_for(2 * kMeet);
  EXPECT_EQ(members(), (Nodes{0, 1}));
  EXPECT_TRUE(gave_up_.empty()) << "that may come about by itself";
  for (uint64_t number = 0; number < 10; ++number) {
    EXPECT_EQ(client_->put(number, 1).code, Code::kOk);
  }
  cluster_->heal_all();
  EXPECT_TRUE(wait_for_members({0, 1, 2}));
}

TEST_F(MeetingTest, NodeThatIsNeverReachedGivesUpAndNamesTheMember) {
  start();
  ASSERT_TRUE(wait_for_members({0, 1, 2}));
  let_fall_out(2);
  cluster_->part(cluster_->node_host(2), cluster_->node_host(1));
  cluster_->start_node(2);
  client_->run_for(5 * kMeet);
  EXPECT_TRUE(gave_up_.empty());
  client_->run_for(3 * kMeet);
  ASSERT_FALSE(gave_up_.empty());
  EXPECT_EQ(gave_up_[0].first, 2u) << gave_up_[0].second;
  EXPECT_NE(gave_up_[0].second.find(fmt::format("{:016x}", node_id("n1"))), std::string::npos)
      << gave_up_[0].second;
}

// Says that its pages travel another way.
class OtherBackend final : public ForwardingFabric {
 public:
  explicit OtherBackend(Fabric& fabric)
      : ForwardingFabric(fabric), capabilities_(fabric.capabilities()) {
    capabilities_.backend = "pigeon";
  }
  const Capabilities& capabilities() const override { return capabilities_; }

 private:
  Capabilities capabilities_;
};

TEST_F(MeetingTest, NodeOfAnotherBackendGivesUpSoonAndNamesBoth) {
  SimClusterOptions options;
  bool is_other = false;
  options.wrap_node = [&](size_t, sim::SimFabric& own) -> std::unique_ptr<Fabric> {
    if (is_other) return std::make_unique<OtherBackend>(own);
    return std::make_unique<ForwardingFabric>(own);
  };
  start(options);
  ASSERT_TRUE(wait_for_members({0, 1, 2}));
  let_fall_out(2);
  is_other = true;
  cluster_->start_node(2);
  client_->run_for(3 * kMeet);
  EXPECT_EQ(members(), (Nodes{0, 1}));
  ASSERT_FALSE(gave_up_.empty());
  EXPECT_EQ(gave_up_[0].first, 2u) << gave_up_[0].second;
  EXPECT_NE(gave_up_[0].second.find("'pigeon'"), std::string::npos) << gave_up_[0].second;
  EXPECT_NE(gave_up_[0].second.find("'sim'"), std::string::npos) << gave_up_[0].second;
  for (uint64_t number = 0; number < 10; ++number) {
    EXPECT_EQ(client_->put(number, 1).code, Code::kOk);
  }
}

}  // namespace
}  // namespace farpage
