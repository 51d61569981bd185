#include "net/accept_loop.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <vector>

#include "net/listening_socket.h"

namespace farpage {
namespace {

class AcceptLoopTest : public ::testing::Test {
 protected:
  AcceptLoopTest() {
    auto socket = listen_on({"", "127.0.0.1", 0}).value();
    port_ = socket.address.port;
    accepting_ = std::make_shared<AcceptLoop>(loop_, std::move(socket.fd), take());
    loop_.run([this] { accepting_->start(); });
  }
  ~AcceptLoopTest() override {
    loop_.run([this] { accepting_->stop(); });
  }

  AcceptLoop::Handler take() {
    return [this](UniqueFd fd) {
      kept_.push_back(std::move(fd));
      ++accepted_;
      loop_.notify();
    };
  }
  static UniqueFd make_socket() {
    return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  bool connect(const UniqueFd& fd) const {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(port_);
    return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  bool wait_for(int count, uint64_t in_ns = 20 * kSecond) {
    return loop_.wait_until(loop_.clock().now_ns() + in_ns, [&] { return accepted_ == count; });
  }

  AsioRuntime loop_;
  uint16_t port_ = 0;
  std::vector<UniqueFd> kept_;  // the loop's alone
  std::atomic<int> accepted_ = 0;
  std::shared_ptr<AcceptLoop> accepting_;
};

TEST_F(AcceptLoopTest, TakesMoreThanItTakesAtOnce) {
  std::vector<UniqueFd> clients(200);
  for (UniqueFd& client : clients) {
    client = make_socket();
    ASSERT_TRUE(connect(client));
  }
  EXPECT_TRUE(wait_for(200));
}

// As without a descriptor left, which UBSan does not stand: it opens a pipe to look at a type.
TEST_F(AcceptLoopTest, WhoComesAfterAcceptHasFailedIsTakenLater) {
  UniqueFd socket = make_socket();
  const int listening = socket.get();
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  ASSERT_EQ(::bind(listening, reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  port_ = ntohs(address.sin_port);
  const auto failing = std::make_shared<AcceptLoop>(loop_, std::move(socket), take());
  loop_.run([&] { failing->start(); });
  EXPECT_FALSE(wait_for(1, 300 * kMillisecond));
  ASSERT_EQ(::listen(listening, 1), 0);
  EXPECT_TRUE(connect(make_socket()));
  EXPECT_TRUE(wait_for(1));
  loop_.run([&] { failing->stop(); });
}

TEST_F(AcceptLoopTest, NobodyIsTakenAfterStop) {
  loop_.run([this] { accepting_->stop(); });
  EXPECT_FALSE(connect(make_socket()));
  EXPECT_EQ(accepted_, 0);
}

}  // namespace
}  // namespace farpage
