// The notes on a path that could not be dialled. The peer is none that ever answers.
#include "transport/verbs/dialer.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace {
std::mutex mutex;
std::function<void()> at_each_look = [] {};  // under the mutex

void look_with(std::function<void()> look) {
  const std::lock_guard lock(mutex);
  at_each_look = std::move(look);
}
void look() {
  std::unique_lock lock(mutex);
  const std::function<void()> copy = at_each_look;
  lock.unlock();
  copy();
}
}  // namespace

// In place of librdmacm's: each call is taken, and no event follows.
extern "C" {
rdma_event_channel* rdma_create_event_channel() {
  return new rdma_event_channel{::eventfd(0, EFD_CLOEXEC)};
}
void rdma_destroy_event_channel(rdma_event_channel* channel) {
  ::close(channel->fd);
  delete channel;
}
int rdma_create_id(rdma_event_channel*, rdma_cm_id** id, void*, rdma_port_space) {
  static rdma_cm_id none = {};
  *id = &none;
  return 0;
}
int rdma_resolve_addr(rdma_cm_id*, sockaddr*, sockaddr*, int) {
  return 0;
}
int rdma_get_cm_event(rdma_event_channel*, rdma_cm_event**) {
  look();
  errno = EAGAIN;
  return -1;
}
}

namespace farpage::verbs {
namespace {

constexpr uint64_t kEnough = 500 * kMillisecond;

class VerbsDialer : public testing::Test {
 protected:
  void TearDown() override {
    look_with([] {});
  }
  // Returns once the dial has ended and what there is to note has been noted.
  void dial(uint64_t deadline_ns) {
    dialer_.dial(arrivals_, where_, {}, deadline_ns);
    const uint64_t until = boottime_clock().now_ns() + 20 * kSecond;
    while (arrivals_.use_count() > 1 && boottime_clock().now_ns() < until)
      std::this_thread::yield();
    ASSERT_EQ(arrivals_.use_count(), 1);
  }
  bool is_noted() const {
    const auto paths = dialer_.ledger().paths();
    return paths.size() == 1 && paths[0].failed == 1;
  }
  bool is_left_alone() { return dialer_.health().dial_ns(where_) > 0; }

  static Endpoint somewhere() {
    Endpoint made;
    reinterpret_cast<sockaddr_in&>(made.storage).sin_family = AF_INET;
    made.bytes = sizeof(sockaddr_in);
    return made;
  }

  const Endpoint where_ = somewhere();
  std::shared_ptr<Arrivals> arrivals_ = std::make_shared<Arrivals>();
  Dialer dialer_{std::make_shared<const Devices>()};
};

TEST_F(VerbsDialer, APathThatIsSilentUntilTheDeadlineIsNoted) {
  dial(boottime_clock().now_ns() + kEnough);
  EXPECT_TRUE(is_noted());
  EXPECT_TRUE(is_left_alone());
}

// The waiter gives up at the same deadline, and may be the first to notice it.
TEST_F(VerbsDialer, ItIsNotedAlsoWhereTheChannelWasClosedAtThatDeadline) {
  const uint64_t deadline = boottime_clock().now_ns() + kEnough;
  look_with([&] {
    while (boottime_clock().now_ns() < deadline) std::this_thread::yield();
    arrivals_->close();
  });
  dial(deadline);
  EXPECT_TRUE(is_noted());
  EXPECT_TRUE(is_left_alone());
}

// As where no thread was free before.
TEST_F(VerbsDialer, ADialThatBeginsAtItsDeadlineSaysNothingAgainstThePath) {
  dial(boottime_clock().now_ns());
  EXPECT_TRUE(dialer_.ledger().paths().empty());
  EXPECT_FALSE(is_left_alone());
}

TEST_F(VerbsDialer, ADialThatNobodyWantsAnyMoreSaysNothingAgainstThePath) {
  arrivals_->close();
  dial(boottime_clock().now_ns() + 3'600 * kSecond);
  EXPECT_TRUE(dialer_.ledger().paths().empty());
  EXPECT_FALSE(is_left_alone());
}

// Peers that fall silent are why queue pairs end, and why dials last.
TEST_F(VerbsDialer, AQueuePairEndsAtOnceHoweverManyDialsAreSilent) {
  struct Dialling {
    std::mutex mutex;
    std::set<std::thread::id> threads;
  };
  const auto dialling = std::make_shared<Dialling>();
  look_with([dialling] {
    const std::lock_guard lock(dialling->mutex);
    dialling->threads.insert(std::this_thread::get_id());
  });
  const auto busy_threads = [&] {
    const std::lock_guard lock(dialling->mutex);
    return dialling->threads.size();
  };
  for (size_t i = 0; i < 2 * Dialer::kDialThreads; ++i) {
    dialer_.dial(arrivals_, where_, {}, boottime_clock().now_ns() + 3'600 * kSecond);
  }
  const uint64_t until = boottime_clock().now_ns() + 20 * kSecond;
  while (busy_threads() < Dialer::kDialThreads && boottime_clock().now_ns() < until) {
    std::this_thread::yield();
  }
  ASSERT_EQ(busy_threads(), Dialer::kDialThreads);

  const auto counters = std::make_shared<PathCounters>();
  dialer_.dispose(std::make_unique<SendQueue>(std::make_unique<Connection>(), counters));
  while (counters.use_count() > 1 && boottime_clock().now_ns() < until) std::this_thread::yield();
  EXPECT_EQ(counters.use_count(), 1);
  arrivals_->close();
}

}  // namespace
}  // namespace farpage::verbs
