// A channel whose end takes its time, because something that its worker has sent is not
// acknowledged, is in nobody else's way.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/clock.h"
#include "transport/ucx/ucx_fabric.h"
#include "transport/ucx/worker.h"

namespace {

std::atomic<bool> is_silent = false;
std::atomic<int> waiting = 0;  // looks at a flush that does not end
int endless = 0;               // such a flush

template <typename Function>
Function* library(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// In place of UCX's.
extern "C" {
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
  std::unique_ptr<Channel> passive;
  std::unique_ptr<Channel> active;
  Region memory;
  RemoteRegion remote;
};

class UcxClosing : public testing::Test {
 protected:
  std::unique_ptr<Fabric> make(bool trusted_clients) {
    UcxOptions options;
    options.transports = "posix";
    options.trusted_clients = trusted_clients;
    return make_ucx_fabric(options).value();
  }
  Pair connect() {
    auto offered = node_->offer_channel(ChannelPurpose::kStage).value();
    auto active =
        client_->connect(std::move(offered.offer), boottime_clock().now_ns() + kPatience).value();
    auto memory = offered.channel->allocate_writable(64).value();
    const auto remote = active->import_region(node_->export_region(memory).value()).value();
    return {std::move(offered.channel), std::move(active), std::move(memory), remote};
  }
  // An immediate, there and polled.
  static bool sends(Pair& pair, uint32_t immediate) {
    Operation write;
    write.kind = OperationKind::kWrite;
    write.has_immediate = true;
    write.immediate = immediate;
    write.remote = pair.remote;
    EXPECT_EQ(pair.active->post({&write, 1}, kNever).accepted, 1u);
    const uint64_t until = boottime_clock().now_ns() + kPatience;
    Completion arrived;
    while (pair.passive->poll({&arrived, 1}) == 0) {
      if (boottime_clock().now_ns() >= until) return false;
      Completion own;
      (void)pair.active->poll({&own, 1});
      pair.passive->wait(boottime_clock().now_ns() + kMillisecond);
    }
    return arrived.immediate == immediate;
  }

  std::unique_ptr<Fabric> node_ = make(true);
  std::unique_ptr<Fabric> client_ = make(false);
};

// The end is given up after a second, so that a host with much else to do may not see it: then it
// is looked at again. One that holds up others never lets anybody in meanwhile.
TEST_F(UcxClosing, OneThatTakesItsTimeHoldsUpNoOther) {
  constexpr int kTries = 5;
  Pair other = connect();
  bool others_went_on = false;
  for (int i = 0; i < kTries && !others_went_on; ++i) {
    Pair slow = connect();
    waiting = 0;
    is_silent = true;
    std::atomic<bool> has_ended = false;
    auto ending = std::async(std::launch::async, [&] {
      slow.passive->close();
      has_ended = true;
    });
    while (waiting == 0 && !has_ended) std::this_thread::yield();
    Pair next = connect();
    EXPECT_TRUE(sends(next, 7));
    EXPECT_TRUE(sends(other, static_cast<uint32_t>(i)));
    others_went_on = !has_ended;
    is_silent = false;
    ending.get();
  }
  EXPECT_TRUE(others_went_on);
}

}  // namespace
}  // namespace farpage::ucx
