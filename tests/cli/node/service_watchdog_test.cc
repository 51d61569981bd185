#include "cli/node/service_watchdog.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "base/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

// Its callbacks run when the test says so.
class HandRuntime final : public Runtime {
 public:
  const Clock& clock() const override { return boottime_clock(); }
  void after(uint64_t delay_ns, std::function<void()> callback) override {
    waiting_.emplace_back(delay_ns, std::move(callback));
  }
  void offload(JobClass, std::function<void()> work) override { work(); }
  bool wait_until(uint64_t, const std::function<bool()>& ready) override { return ready(); }

  // How long the next one wanted to wait.
  uint64_t run_one() {
    const auto [delay_ns, callback] = std::move(waiting_.front());
    waiting_.pop_front();
    callback();
    return delay_ns;
  }
  size_t waiting() const { return waiting_.size(); }

 private:
  void wake() override {}
  std::deque<std::pair<uint64_t, std::function<void()>>> waiting_;
};

// A service manager that wants to hear of this process within 30 s.
class ServiceWatchdogTest : public testing::Test {
 protected:
  ServiceWatchdogTest() {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = folder_ / "notify";
    std::memcpy(address.sun_path, path.data(), path.size());
    socket_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    ::setenv("WATCHDOG_USEC", "30000000", 1);
    ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  }
  ~ServiceWatchdogTest() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  }

  // The messages since the last time, one after the other.
  std::string heard() const {
    std::string all;
    std::array<char, 256> text;
    for (ssize_t count; (count = ::recv(socket_.get(), text.data(), text.size(), 0)) > 0;) {
      all += std::string(text.data(), static_cast<size_t>(count)) + ".";
    }
    return all;
  }

  HandRuntime runtime_;

 private:
  TempDir folder_;
  UniqueFd socket_;
};

TEST_F(ServiceWatchdogTest, TheThreadThatServesTellsTwiceAsOftenAsItHasTo) {
  const auto watchdog = ServiceWatchdog::start(runtime_);
  ASSERT_NE(watchdog, nullptr);
  EXPECT_EQ(heard(), "") << "a thread that hangs says nothing, and no other one does";
  EXPECT_EQ(runtime_.run_one(), 0u);
  EXPECT_EQ(heard(), "WATCHDOG=1.");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(runtime_.run_one(), 15 * kSecond);
    EXPECT_EQ(heard(), "WATCHDOG=1.");
  }
}

TEST_F(ServiceWatchdogTest, ItEndsWithItsObject) {
  auto watchdog = ServiceWatchdog::start(runtime_);
  runtime_.run_one();
  heard();
  watchdog.reset();
  runtime_.run_one();
  EXPECT_EQ(heard(), "");
  EXPECT_EQ(runtime_.waiting(), 0u);
}

TEST_F(ServiceWatchdogTest, NobodyIsToldOfAnotherProcess) {
  ::setenv("WATCHDOG_PID", std::to_string(::getppid()).c_str(), 1);
  EXPECT_EQ(ServiceWatchdog::start(runtime_), nullptr);
  ::setenv("WATCHDOG_PID", "nobody", 1);
  EXPECT_EQ(ServiceWatchdog::start(runtime_), nullptr);
  ::unsetenv("WATCHDOG_PID");
  ::unsetenv("WATCHDOG_USEC");
  EXPECT_EQ(ServiceWatchdog::start(runtime_), nullptr);
  EXPECT_EQ(runtime_.waiting(), 0u);
}

TEST_F(ServiceWatchdogTest, WhatIsNoTimeIsTold) {
  ::setenv("WATCHDOG_USEC", "soon", 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(ServiceWatchdog::start(runtime_), nullptr);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("WATCHDOG_USEC"), std::string::npos);
}

}  // namespace
}  // namespace farpage
