#include "net/dial_async.h"

#include <atomic>
#include <vector>

#include "tests/net/open_port.h"
#include "tests/net/silent_port.h"

namespace farpage {
namespace {

// The result of one dial.
struct Dialled {
  std::atomic<bool> ended = false;
  Result<std::unique_ptr<Stream>> stream = fail(Code::kAborted, "");
};

class DialAsync : public ::testing::Test {
 protected:
  std::shared_ptr<Dialled> begin(const Address& address, uint64_t in_ns = 5 * kSecond,
                                 const ClientCredentials& credentials = {}) {
    auto dialled = std::make_shared<Dialled>();
    dial_async(*runtime_, address, credentials, {}, soon(in_ns),
               [this, dialled](Result<std::unique_ptr<Stream>> stream) {
                 dialled->stream = std::move(stream);
                 dialled->ended = true;
                 runtime_->notify();
               });
    return dialled;
  }
  bool ends(const std::shared_ptr<Dialled>& dialled) {
    return runtime_->wait_until(soon(), [&] { return dialled->ended.load(); });
  }

  OpenPort port_;
  const Address port_address_ = port_.address();
  SilentPort silent_;
  std::unique_ptr<AsioRuntime> runtime_ = std::make_unique<AsioRuntime>();
};

TEST_F(DialAsync, NodeThatLivesAnswers) {
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const auto dialled = begin({"", host, port_.address().port});
    ASSERT_TRUE(ends(dialled));
    ASSERT_TRUE(dialled->stream.has_value()) << dialled->stream.error().message;
    EXPECT_NE(port_.guest().first, nullptr);
  }
}

TEST_F(DialAsync, DeadHostsTakeNoThreadFromALivingOne) {
  std::vector<std::shared_ptr<Dialled>> dead;
  for (int i = 0; i < 160; ++i) dead.push_back(begin(silent_.address(), 600 * kSecond));
  const auto living = begin({"", "localhost", port_.address().port});
  ASSERT_TRUE(ends(living));
  EXPECT_TRUE(living->stream.has_value());
  for (const auto& each : dead) EXPECT_FALSE(each->ended);
}

TEST_F(DialAsync, HostThatSaysNothingIsAnErrorAtTheDeadline) {
  const uint64_t deadline = soon(50 * kMillisecond);
  const auto dialled = begin(silent_.address(), 50 * kMillisecond);
  ASSERT_TRUE(ends(dialled));
  EXPECT_GE(boottime_clock().now_ns(), deadline);
  ASSERT_FALSE(dialled->stream.has_value());
  EXPECT_EQ(dialled->stream.error().code, Code::kTimeout);
  expect_says(dialled->stream.error(), "farpage node --listen");
}

TEST_F(DialAsync, ClosedPortAndUnknownNameSayWhatToDo) {
  port_.close();
  const auto closed = begin(port_address_);
  ASSERT_TRUE(ends(closed));
  ASSERT_FALSE(closed->stream.has_value());
  EXPECT_EQ(closed->stream.error().code, Code::kUnavailable);
  expect_says(closed->stream.error(), "farpage node --listen");
  const auto unknown = begin({"", "no-node.invalid", 1});
  ASSERT_TRUE(ends(unknown));
  ASSERT_FALSE(unknown->stream.has_value());
  expect_says(unknown->stream.error(), "'no-node.invalid'");
}

TEST_F(DialAsync, RuntimeThatEndsFreesWhatWasDialled) {
  std::vector<std::shared_ptr<Dialled>> dead;
  for (int i = 0; i < 20; ++i) dead.push_back(begin(silent_.address(), 600 * kSecond));
  runtime_->run([] {});
  runtime_.reset();
  for (const auto& each : dead) {
    EXPECT_FALSE(each->ended);
    EXPECT_EQ(each.use_count(), 1);
  }
}

}  // namespace
}  // namespace farpage
