// A peer that attacks a memory node with descriptors and files only gets cut off.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/control/served_node.h"

namespace farpage {
namespace {

class UnixAttack : public ::testing::Test {
 protected:
  ServedNode node_;
};

TEST_F(UnixAttack, DescriptorsWithoutMessagesAreCutOffAndClosed) {
  node_.expect_serving();
  ASSERT_TRUE(node_.wait_disconnected(1));
  node_.settle();
  const size_t before = open_descriptors();
  const std::string half = raw_request(1, HelloRequest{}).substr(0, 5);
  const std::vector<int> own(16, STDERR_FILENO);
  for (int i = 0; i < 20; ++i) {
    RawPeer peer = node_.connect();
    ASSERT_TRUE(peer.send_descriptors(half.substr(0, 1), own));
    ASSERT_TRUE(peer.send_descriptors(half.substr(1, 1), own));  // 32, and no frame yet
    EXPECT_TRUE(peer.closed_by_peer());
  }
  ASSERT_TRUE(node_.wait_disconnected(21));
  node_.settle();
  EXPECT_EQ(open_descriptors(), before);
  node_.expect_serving();
}

TEST_F(UnixAttack, MoreDescriptorsThanAFrameTakesAreNotKept) {
  const size_t before = open_descriptors();
  const std::vector<int> own(253, STDERR_FILENO);
  {
    RawPeer peer = node_.connect();
    ASSERT_TRUE(peer.send_descriptors(raw_request(1, StatusRequest{}), own));
    ASSERT_TRUE(peer.receive().has_value());
    // Those that the frame did not announce wait for the next one, and are no more than its limit.
    EXPECT_LE(open_descriptors(), before + 2 + 16);
  }
  ASSERT_TRUE(node_.wait_disconnected(1));
  node_.settle();
  EXPECT_EQ(open_descriptors(), before);
}

// Each reply carries five descriptors, and lanes can be replaced for ever.
TEST_F(UnixAttack, ClientThatOpensLanesWithoutReadingIsCutOff) {
  const size_t before = open_descriptors();
  RawPeer peer = node_.connect();
  peer.send(raw_request(1, HelloRequest{}));
  node_.turn_until([&] { return node_.service().answered_count() == 1; });
  size_t most = 0;
  for (int lane = 0; lane < 2000 && node_.service().disconnected_count() == 0; ++lane) {
    const std::string request =
        raw_request(static_cast<uint64_t>(lane) + 2, OpenLaneRequest{static_cast<uint64_t>(lane)});
    if (peer.send(request) < request.size()) break;
    node_.turn_until([&] {
      return node_.service().answered_count() == lane + 2 ||
             node_.service().disconnected_count() > 0;
    });
    node_.settle();
    if (lane % 50 == 0) most = std::max(most, open_descriptors());
  }
  EXPECT_TRUE(node_.wait_disconnected(1));
  node_.settle();
  EXPECT_LT(most, before + 400);
  peer.close();
  EXPECT_EQ(open_descriptors(), before);
  node_.expect_serving();
}

TEST_F(UnixAttack, StrangersCannotConnect) {
  const auto mode = std::filesystem::status(node_.path()).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

}  // namespace
}  // namespace farpage
