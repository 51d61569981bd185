#include "control/tcp_control.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/control/served_node.h"

namespace farpage {
namespace {

class TcpControl : public ::testing::TestWithParam<Reach> {
 protected:
  using Link = Result<std::shared_ptr<ControlLink>>;

  bool wait(const std::function<bool()>& ready) {
    return runtime_.wait_until(runtime_.clock().now_ns() + 20 * kSecond, ready);
  }
  Link dial(ControlDialer& dialer) {
    auto link = std::make_shared<std::optional<Link>>();
    std::atomic<bool> ended = false;
    dialer.dial([&, link](Link result) {
      *link = std::move(result);
      ended = true;
      runtime_.notify();
    });
    EXPECT_TRUE(wait([&] { return ended.load(); }));
    runtime_.run([] {});
    return std::move(**link);
  }
  Link dial(const Address& address, const ClientCredentials& credentials,
            uint64_t connect_ms = 10'000) {
    dialer_ = make_dialer(runtime_, address, credentials, connect_ms).value();
    return dial(*dialer_);
  }
  Result<Reply> call(ControlLink& link, Request request) {
    std::optional<Result<Reply>> answer;
    std::atomic<bool> ended = false;
    link.call(std::move(request), [&](Result<Reply> reply) {
      answer = std::move(reply);
      ended = true;
      runtime_.notify();
    });
    EXPECT_TRUE(wait([&] { return ended.load(); }));
    runtime_.run([] {});
    return std::move(*answer);
  }

  ServedNode node_{{.reach = GetParam()}};
  AsioRuntime runtime_;
  std::unique_ptr<ControlDialer> dialer_;
};

INSTANTIATE_TEST_SUITE_P(Over, TcpControl, ::testing::Values(Reach::kTcp, Reach::kTls), reach_name);

TEST_P(TcpControl, CallsAreAnsweredFromManyThreads) {
  const auto link = dial(node_.address(), node_.credentials()).value();
  std::atomic<int> replies = 0;
  std::atomic<int> errors = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j) {
        link->call(StatusRequest{}, [&](const Result<Reply>& reply) {
          ++(reply ? replies : errors);
          runtime_.notify();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(wait([&] { return replies + errors == 800; }));
  EXPECT_EQ(errors, 0);
}

TEST_P(TcpControl, LinkSaysWhereItLeads) {
  const auto link = dial(node_.address(), node_.credentials()).value();
  EXPECT_EQ(link->peer().address, format_address(node_.address()));
  EXPECT_EQ(link->peer().address.find("tcp://127.0.0.1:"), 0u);
  EXPECT_EQ(link->peer().name, "127.0.0.1");
}

// Another node may be behind another address of the name.
TEST_P(TcpControl, LinkByANameSaysInNumbersWhichNodeHasAnswered) {
  Address by_name = node_.address();
  by_name.host = "localhost";
  const auto link = dial(by_name, node_.credentials()).value();
  EXPECT_EQ(link->peer().address, format_address(node_.address()));
  EXPECT_EQ(link->peer().name, "localhost");
}

// shm hands its memory over as descriptors.
TEST_P(TcpControl, ReplyWithDescriptorsIsRefusedWithASentence) {
  const auto link = dial(node_.address(), node_.credentials()).value();
  const auto refused = call(*link, HelloRequest{kControlProtocol, kPageFormat, 64 * kKiB});
  ASSERT_TRUE(refused.has_value());
  const auto* refusal = std::get_if<Refusal>(&*refused);
  ASSERT_NE(refusal, nullptr);
  EXPECT_NE(refusal->message.find("through a Unix socket"), std::string::npos);
  EXPECT_TRUE(call(*link, StatusRequest{}).has_value()) << "the link lives on";
}

TEST_P(TcpControl, LostNodeEndsWaitingCalls) {
  const auto link = dial(node_.address(), node_.credentials()).value();
  ASSERT_TRUE(std::holds_alternative<HelloReply>(call(*link, node_.hello()).value()));
  std::atomic<int> errors = 0;
  for (int i = 0; i < 20; ++i) {
    link->call(CommitRequest{1, 60 * kSecond, {CommitPage{}}}, [&](const Result<Reply>& reply) {
      errors += reply ? 0 : 1;
      runtime_.notify();
    });
  }
  ASSERT_TRUE(node_.wait([&] { return node_.service().handled_count() == 21; }));
  node_.stop();
  EXPECT_TRUE(wait([&] { return errors == 20; }));
}

TEST_P(TcpControl, DestroyedLinkIsADisconnectedClient) {
  auto link = dial(node_.address(), node_.credentials()).value();
  ASSERT_TRUE(call(*link, StatusRequest{}).has_value());
  link.reset();
  EXPECT_TRUE(node_.wait_disconnected(1));
}

TEST_P(TcpControl, WrongTokenIsDenied) {
  ClientCredentials wrong = node_.credentials();
  wrong.token = SharedToken{"a token of another test"};
  const auto link = dial(node_.address(), wrong);
  ASSERT_FALSE(link.has_value());
  EXPECT_EQ(link.error().code, Code::kDenied);
  EXPECT_EQ(node_.service().connected_count(), 0);
}

TEST_P(TcpControl, DialingNobodySaysWhatToStart) {
  const Address address = node_.address();
  node_.stop();
  const auto link = dial(address, node_.credentials());
  ASSERT_FALSE(link.has_value());
  EXPECT_EQ(link.error().code, Code::kUnavailable);
  EXPECT_NE(link.error().message.find("farpage node --listen " + format_address(address)),
            std::string::npos)
      << link.error().message;
}

// A port whose connections nobody accepts: the kernel does, and then there is silence.
TEST_P(TcpControl, DialEndsInItsTimeAndTheRuntimeMayGoMeanwhile) {
  const UniqueFd silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::listen(silent.get(), 4), 0);
  sockaddr_in bound = {};
  socklen_t bytes = sizeof bound;
  ASSERT_EQ(::getsockname(silent.get(), reinterpret_cast<sockaddr*>(&bound), &bytes), 0);
  Address address = parse_address("tcp://127.0.0.1:0").value();
  address.port = ntohs(bound.sin_port);
  const uint64_t start = runtime_.clock().now_ns();
  const auto link = dial(address, node_.credentials(), 50);
  ASSERT_FALSE(link.has_value());
  EXPECT_EQ(link.error().code, Code::kTimeout);
  EXPECT_GE(runtime_.clock().now_ns() - start, 50 * kMillisecond);

  UniqueFd(::accept(silent.get(), nullptr, nullptr)).reset();

  uint64_t leaving = 0;
  {
    constexpr uint64_t kConnectMs = 500;
    AsioRuntime other;
    auto dialer = make_dialer(other, address, node_.credentials(), kConnectMs).value();
    for (int i = 0; i < 40; ++i) dialer->dial([](const Link&) {});
    dialer.reset();
    ASSERT_TRUE(wait_for(silent.get(), POLLIN, runtime_.clock().now_ns() + 20 * kSecond));
    leaving = runtime_.clock().now_ns();
  }
  // Those that have begun end in their time, beside each other.
  EXPECT_LT(runtime_.clock().now_ns() - leaving, 5 * kSecond);
}

}  // namespace
}  // namespace farpage
