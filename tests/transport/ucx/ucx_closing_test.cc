// A channel whose end takes its time, because something that its worker has sent is not
// acknowledged, is in nobody else's way.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <future>

#include "base/clock.h"
#include "tests/support/posting.h"
#include "transport/ucx/ucx_fabric.h"
#include "transport/ucx/worker.h"

namespace {

std::atomic<bool> is_silent = false;
std::atomic<bool> is_busy = false;  // whenever something has been done, there is more
std::atomic<int> waiting = 0;       // looks at a flush that does not end
int endless = 0;                    // such a flush

// This thread's clock stands still, so that it sees no deadline. Not for ever, so that a test that
// has failed comes to its end.
thread_local bool is_timeless = false;
constexpr time_t kTimelessS = 60;

template <typename Function>
Function* library(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// In place of UCX's and the C library's.
extern "C" {
int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static auto* const look = library<decltype(::clock_gettime)>("clock_gettime");
  thread_local timespec first = {};
  const int status = look(clock, now);
  if (!is_timeless) return status;
  if (first.tv_sec == 0) first = *now;
  if (now->tv_sec < first.tv_sec + kTimelessS) *now = first;
  return status;
}
unsigned ucp_worker_progress(ucp_worker_h worker) {
  static auto* const progress = library<decltype(ucp_worker_progress)>("ucp_worker_progress");
  const unsigned done = progress(worker);
  return is_busy ? 1 : done;
}
ucs_status_ptr_t ucp_worker_flush_nbx(ucp_worker_h worker, const ucp_request_param_t* param) {
  if (is_silent) return &endless;
  static auto* const flush = library<decltype(ucp_worker_flush_nbx)>("ucp_worker_flush_nbx");
  return flush(worker, param);
}
ucs_status_t ucp_request_check_status(void* request) {
  static auto* const check =
      library<decltype(ucp_request_check_status)>("ucp_request_check_status");
  if (request != &endless) return check(request);
  ++waiting;
  return is_silent ? UCS_INPROGRESS : UCS_OK;
}
void ucp_request_free(void* request) {
  static auto* const release = library<decltype(ucp_request_free)>("ucp_request_free");
  if (request != &endless) release(request);
}
}

namespace farpage::ucx {
namespace {

constexpr uint64_t kPatience = 10 * kSecond;

struct Pair {
  std::unique_ptr<Target> target;
  std::unique_ptr<Initiator> initiator;
  Region memory;
  RemoteRegion remote;
};

class UcxClosing : public testing::Test {
 protected:
  void TearDown() override {
    is_silent = is_busy = false;
    if (ending_.valid()) ending_.wait();
  }
  // Until it has looked whether its flush has ended.
  template <typename End>
  void begin_end(const End& end) {
    waiting = 0;
    ending_ = std::async(std::launch::async, end);
    const uint64_t until = boottime_clock().now_ns() + kPatience;
    while (waiting == 0 && boottime_clock().now_ns() < until) std::this_thread::yield();
    EXPECT_GT(waiting, 0);
  }
  std::unique_ptr<Fabric> make(bool trusted_clients) {
    UcxOptions options;
    options.transports = "posix";
    options.trusted_clients = trusted_clients;
    return make_ucx_fabric(options).value();
  }
  Pair connect() {
    auto offered = node_->offer_channel(ChannelPurpose::kStage).value();
    auto initiator =
        client_->connect(std::move(offered.offer), boottime_clock().now_ns() + kPatience).value();
    auto memory = offered.target->allocate_writable(64).value();
    const auto remote = import_whole(*initiator, node_->export_region(memory).value()).value();
    return {std::move(offered.target), std::move(initiator), std::move(memory), remote};
  }
  // An immediate, there and polled.
  static bool sends(Pair& pair, uint32_t immediate) {
    Operation write;
    write.kind = OperationKind::kWrite;
    write.has_immediate = true;
    write.immediate = immediate;
    write.remote = pair.remote;
    EXPECT_EQ(post_operations(*pair.initiator, {&write, 1}).accepted, 1u);
    const uint64_t until = boottime_clock().now_ns() + kPatience;
    uint32_t arrived = 0;
    while (pair.target->poll({&arrived, 1}) == 0) {
      if (boottime_clock().now_ns() >= until) return false;
      Completion own;
      (void)pair.initiator->poll({&own, 1});
      pair.target->wait(boottime_clock().now_ns() + kMillisecond);
    }
    return arrived == immediate;
  }

  std::unique_ptr<Fabric> node_ = make(true);
  std::unique_ptr<Fabric> client_ = make(false);
  Pair closing_ = connect();
  Pair other_ = connect();
  std::atomic<bool> has_ended_ = false;
  std::future<void> ending_;
};

// The end would be given up after a second.
TEST_F(UcxClosing, OneThatTakesItsTimeHoldsUpNoOther) {
  is_silent = true;
  begin_end([&] {
    is_timeless = true;
    closing_.target->close();
    has_ended_ = true;
  });
  Pair next = connect();
  EXPECT_TRUE(sends(next, 7));
  EXPECT_TRUE(sends(other_, 8));
  EXPECT_FALSE(has_ended_);
  is_silent = false;
}

// As when others send without pause.
TEST_F(UcxClosing, OneEndsAndAnotherComesWhileTheWorkerIsNeverIdle) {
  is_silent = true;
  is_busy = true;
  begin_end([&] { closing_.target->close(); });
  is_silent = false;
  ASSERT_EQ(ending_.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  Pair next = connect();
  EXPECT_TRUE(sends(next, 7));
  EXPECT_TRUE(sends(other_, 8));
}

}  // namespace
}  // namespace farpage::ucx
