// The channels that a node of tcp offers, and that each takes its own offer with it.
#include <gtest/gtest.h>

#include <vector>

#include "transport/tcp/offers.h"
#include "transport/tcp/target.h"

namespace farpage::tcp {
namespace {

class TcpOffers : public testing::Test {
 protected:
  std::unique_ptr<TcpTarget> offer(const ChannelId& id) {
    return std::make_unique<TcpTarget>(id, std::make_shared<TargetState>(1, ChannelPurpose::kRead),
                                       exports_, offers_);
  }

  std::shared_ptr<Exports> exports_ = std::make_shared<Exports>();
  std::shared_ptr<Offers> offers_ = std::make_shared<Offers>();
};

TEST_F(TcpOffers, AChannelTakesItsOwnOfferWithIt) {
  std::vector<std::unique_ptr<TcpTarget>> channels;
  for (int i = 0; i < 2'000; ++i) channels.push_back(offer(make_channel_id()));
  EXPECT_EQ(offers_->size(), 2'000u);
  while (channels.size() > 1) {
    channels.pop_back();
    ASSERT_EQ(offers_->size(), channels.size());
  }
}

TEST_F(TcpOffers, AChannelIsTakenUpOnce) {
  const ChannelId id = make_channel_id();
  const auto channel = offer(id);
  EXPECT_NE(offers_->take(id), nullptr);
  EXPECT_EQ(offers_->take(id), nullptr);
  EXPECT_EQ(offers_->size(), 0u);
}

TEST_F(TcpOffers, AClosedChannelIsTakenUpByNobody) {
  const ChannelId id = make_channel_id();
  const auto channel = offer(id);
  channel->close();
  EXPECT_EQ(offers_->take(id), nullptr);
  channel->close();  // as its destructor does
}

}  // namespace
}  // namespace farpage::tcp
