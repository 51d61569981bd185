// The channels that a node of verbs offers. No peer comes: librdmacm is dialer_test.cc's own.
#include "transport/verbs/listener.h"

#include <gtest/gtest.h>

#include <vector>

namespace farpage::verbs {
namespace {

class VerbsListener : public testing::Test {
 protected:
  std::unique_ptr<VerbsTarget> offer() {
    const ChannelId id = make_channel_id();
    auto end = TargetEnd::make(devices_, ChannelPurpose::kRead, seen_).value();
    listener_->offer(id, end);
    return std::make_unique<VerbsTarget>(id, std::move(end), listener_);
  }

  const std::shared_ptr<const Devices> devices_ = std::make_shared<const Devices>();
  const std::shared_ptr<PortEvents> seen_ = std::make_shared<PortEvents>();
  const std::shared_ptr<ChannelListener> listener_ =
      ChannelListener::listen(devices_, seen_).value();
};

TEST_F(VerbsListener, AChannelTakesItsOwnOfferWithIt) {
  std::vector<std::unique_ptr<VerbsTarget>> channels;
  for (int i = 0; i < 2'000; ++i) channels.push_back(offer());
  EXPECT_EQ(listener_->offers(), 2'000u);
  while (channels.size() > 1) {
    channels.pop_back();
    ASSERT_EQ(listener_->offers(), channels.size());
  }
}

TEST_F(VerbsListener, AClosedChannelIsOfferedNoMore) {
  const auto channel = offer();
  const auto other = offer();
  channel->close();
  EXPECT_EQ(listener_->offers(), 1u);
}

}  // namespace
}  // namespace farpage::verbs
