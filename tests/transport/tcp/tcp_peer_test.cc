// Which node an offer is taken up at, and whom that node must be able to show.
#include <gtest/gtest.h>

#include "tests/support/certificates.h"
#include "tests/support/data_port.h"
#include "tests/support/temp_dir.h"

namespace farpage::tcp {
namespace {

class TcpPeer : public testing::Test {
 protected:
  // The offer's way is open at `listener`; the peer is named `name`.
  static Result<std::unique_ptr<Initiator>> take_up(TcpFabric& node, const Listener& listener,
                                                    TcpFabric& client, const std::string& name) {
    OfferedTarget offered = node.offer_channel(ChannelPurpose::kRead).value();
    offered.offer.peer = {format_address(listener.address()), name};
    return client.connect(std::move(offered.offer), boottime_clock().now_ns() + 10 * kSecond);
  }

  std::unique_ptr<TcpFabric> node_ = make_tcp_fabric({.io_threads = 1}).value();
};

TEST_F(TcpPeer, NameIsNotResolvedAgain) {
  const auto listener = serve_data(*node_);
  const auto client = make_tcp_fabric({}).value();
  const auto channel = take_up(*node_, *listener, *client, "no-node.invalid");
  EXPECT_TRUE(channel.has_value()) << channel.error().message;
}

TEST_F(TcpPeer, CertificateMustShowTheNameAndNotTheNumbers) {
  const TempDir dir;
  const TestCa ca(dir / "");
  TestCa::Wish wish;
  wish.names = "DNS:node7.example.com";
  const auto listener =
      serve_data(*node_, {{}, TlsContext::for_node(ca.issue("node7", wish)).value()});
  const auto client =
      make_tcp_fabric({.credentials = {{}, TlsContext::for_client({"", "", ca.file()}).value()}})
          .value();
  const auto channel = take_up(*node_, *listener, *client, "node7.example.com");
  EXPECT_TRUE(channel.has_value()) << channel.error().message;
  for (const char* other : {"127.0.0.1", "node8.example.com"}) {
    const auto refused = take_up(*node_, *listener, *client, other);
    ASSERT_FALSE(refused.has_value()) << other;
    EXPECT_EQ(refused.error().code, Code::kDenied);
  }
}

}  // namespace
}  // namespace farpage::tcp
