// A client's link to its node over real TCP, through a network that fails without a word.
#include <gtest/gtest.h>

#include "control/tcp_control.h"
#include "net/listener.h"
#include "node/node.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/temp_dir.h"
#include "tier/client.h"
#include "transport/tcp/tcp_fabric.h"

namespace farpage {
namespace {

constexpr uint64_t kLeaseNs = 400 * kMillisecond;
constexpr uint64_t kDialMs = 200;  // one that is under way when the link is back ends soon

class TcpLink : public ::testing::Test {
 protected:
  TcpLink() {
    NodeOptions options;
    options.listen = "tcp://127.0.0.1:0";
    options.state = dir_ / "node.state";
    options.page_bytes = 4 * kKiB;
    options.pool_bytes = kMiB;
    options.lease_ms = kLeaseNs / kMillisecond;
    runtime_.run([&] { node_ = make_memory_node(options, runtime_, *fabric_).value(); });
    server_ = std::make_unique<TcpControlServer>(runtime_, *node_);
    listener_ =
        Listener::listen(parse_address(options.listen).value(), {},
                         {[this](std::unique_ptr<Stream> stream, const Introduction&) {
                            server_->take(std::move(stream));
                          },
                          [this](std::unique_ptr<Stream> stream, const Introduction& introduction) {
                            fabric_->accept(std::move(stream), introduction);
                          }})
            .value();
    proxy_ = std::make_unique<TcpProxy>(listener_->address());
    client_options_.staging_bytes = 0;
    client_options_.connect_ms = 2'000;
    dialer_ = make_dialer(client_runtime_, proxy_->address(), {}, kDialMs).value();
  }
  ~TcpLink() override {
    listener_.reset();
    server_.reset();
    runtime_.run([this] { node_.reset(); });
  }

  bool wait(uint64_t in_ns, const std::function<bool()>& ready) {
    return client_runtime_.wait_until(client_runtime_.clock().now_ns() + in_ns, ready);
  }

  TempDir dir_;
  std::unique_ptr<tcp::TcpFabric> fabric_ = tcp::make_tcp_fabric({.io_threads = 1}).value();
  AsioRuntime runtime_;
  std::unique_ptr<ControlService> node_;
  std::unique_ptr<TcpControlServer> server_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<TcpProxy> proxy_;

  ClientOptions client_options_;
  AsioRuntime client_runtime_;
  std::unique_ptr<Fabric> client_fabric_ = tcp::make_tcp_fabric({}).value();
  std::unique_ptr<ControlDialer> dialer_;
};

TEST_F(TcpLink, ClientIsBackSoonAfterTheLinkIs) {
  auto client =
      Client::connect(client_options_, client_runtime_, *client_fabric_, *dialer_).value();
  EXPECT_TRUE(client->reachable());
  proxy_->hold(true);
  ASSERT_TRUE(wait(20 * kSecond, [&] { return !client->reachable(); }));
  // Long enough for every pause to have grown.
  EXPECT_FALSE(wait(3 * kLeaseNs, [&] { return client->reachable(); }));
  proxy_->hold(false);
  // A dial that is under way, the longest pause, a dial: far less than TCP's own timers.
  EXPECT_TRUE(wait(5 * kSecond, [&] { return client->reachable(); }));
  EXPECT_TRUE(client->node_status(client_runtime_.clock().now_ns() + 5 * kSecond).has_value());
}

TEST_F(TcpLink, ClientMayGoWhileItDials) {
  auto client =
      Client::connect(client_options_, client_runtime_, *client_fabric_, *dialer_).value();
  proxy_->hold(true);
  ASSERT_TRUE(wait(20 * kSecond, [&] { return !client->reachable(); }));
  client.reset();
  dialer_.reset();
}

TEST_F(TcpLink, FirstConnectEndsInItsTime) {
  proxy_->hold(true);
  const uint64_t start = client_runtime_.clock().now_ns();
  const auto client = Client::connect(client_options_, client_runtime_, *client_fabric_, *dialer_);
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, Code::kTimeout);
  EXPECT_NE(client.error().message.find(format_address(proxy_->address())), std::string::npos)
      << client.error().message;
  EXPECT_LT(client_runtime_.clock().now_ns() - start, 20 * kSecond);
}

TEST_F(TcpLink, WrongTokenEndsTheFirstConnectAtOnce) {
  listener_.reset();
  listener_ = Listener::listen(parse_address("tcp://127.0.0.1:0").value(),
                               {SharedToken{"the token of this test"}, nullptr},
                               {[](std::unique_ptr<Stream>, const Introduction&) {},
                                [](std::unique_ptr<Stream>, const Introduction&) {}})
                  .value();
  client_options_.connect_ms = 60'000;
  dialer_ = make_dialer(client_runtime_, listener_->address(), {}, 60'000).value();
  const auto client = Client::connect(client_options_, client_runtime_, *client_fabric_, *dialer_);
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, Code::kDenied);
  EXPECT_NE(client.error().message.find("security.token_file"), std::string::npos);
}

}  // namespace
}  // namespace farpage
