#include "net/accept_loop.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
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
    accepting_ = std::make_shared<AcceptLoop>(loop_, std::move(socket.fd), [this](UniqueFd fd) {
      kept_.push_back(std::move(fd));
      ++accepted_;
      loop_.notify();
    });
    loop_.run([this] { accepting_->start(); });
  }
  ~AcceptLoopTest() override {
    loop_.run([this] { accepting_->stop(); });
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

TEST_F(AcceptLoopTest, WhoComesWithoutADescriptorLeftIsTakenLater) {
  const UniqueFd client = make_socket();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {static_cast<rlim_t>(client.get()), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_TRUE(connect(client));
  EXPECT_FALSE(wait_for(1, 300 * kMillisecond));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(wait_for(1));
}

TEST_F(AcceptLoopTest, NobodyIsTakenAfterStop) {
  loop_.run([this] { accepting_->stop(); });
  EXPECT_FALSE(connect(make_socket()));
  EXPECT_EQ(accepted_, 0);
}

}  // namespace
}  // namespace farpage
