#include "net/runtime/asio_runtime.h"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/runtime/blocking_jobs.h"

namespace farpage {
namespace asio = boost::asio;
namespace {

constexpr uint64_t kAskForAThreadAgainNs = kSecond / 2;

class DescriptorWatch final : public Watch {
 public:
  DescriptorWatch(asio::io_context& context, int fd) : descriptor_(context, fd) {}
  ~DescriptorWatch() override { descriptor_.release(); }

  void when_readable(std::function<void()> callback) override {
    wait(asio::posix::descriptor_base::wait_read, std::move(callback));
  }
  void when_writable(std::function<void()> callback) override {
    wait(asio::posix::descriptor_base::wait_write, std::move(callback));
  }

 private:
  void wait(asio::posix::descriptor_base::wait_type what, std::function<void()> callback) {
    // A wait that had ended before release() is not cancelled by it.
    descriptor_.async_wait(what, [callback = std::move(callback),
                                  alive = std::weak_ptr<bool>(alive_)](const auto& error) {
      if (!error && !alive.expired()) callback();
    });
  }

  asio::posix::stream_descriptor descriptor_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

struct AsioRuntime::Loop {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(context);
  // Asio opens the loop's own descriptors for the first watch: here, where somebody hears of it
  // when there are none, and not on the loop's thread.
  asio::posix::stream_descriptor first{context};
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::weak_ptr<ChangeSignal>> signals;  // under the mutex
  std::optional<Error> shortage;                     // under the mutex
  std::thread thread;
  BlockingJobs jobs;

  static std::unique_ptr<Loop> open() {
    try {
      return std::make_unique<Loop>();
    } catch (const boost::system::system_error& thrown) {
      throw std::system_error(thrown.code().value(), std::generic_category(),
                              "cannot open an event loop");
    }
  }
};

AsioRuntime::AsioRuntime() : loop_(Loop::open()) {
  loop_->thread = std::thread([this] { loop_->context.run(); });
}

AsioRuntime::~AsioRuntime() {
  loop_->jobs.stop();
  loop_->context.stop();
  loop_->thread.join();
}

const Clock& AsioRuntime::clock() const {
  return boottime_clock();
}

const Clock& AsioRuntime::wall_clock() const {
  return realtime_clock();
}

std::unique_ptr<Watch> AsioRuntime::watch(int fd) {
  return std::make_unique<DescriptorWatch>(loop_->context, fd);
}

void AsioRuntime::offload(JobClass job, std::function<void()> work) {
  if (loop_->jobs.take(job, work)) return;
  const std::string why =
      "cannot start a thread for a blocking job: raise the limit of processes (ulimit -u)";
  log_warning(why);
  note_shortage({Code::kExhausted, why});
  after(kAskForAThreadAgainNs, [this, job, work = std::move(work)] { offload(job, work); });
}

void AsioRuntime::after(uint64_t delay_ns, std::function<void()> callback) {
  if (delay_ns == 0) {
    asio::post(loop_->context, std::move(callback));
    return;
  }
  // The timer is made and armed on the loop's thread: asio's timers are not thread-safe.
  asio::post(loop_->context, [this, delay_ns, callback = std::move(callback)]() mutable {
    auto timer =
        std::make_shared<asio::steady_timer>(loop_->context, std::chrono::nanoseconds(delay_ns));
    timer->async_wait([timer, callback = std::move(callback)](const auto& error) {
      if (!error) callback();
    });
  });
}

void AsioRuntime::dispatch(std::function<void()> callback) {
  asio::dispatch(loop_->context, std::move(callback));
}

bool AsioRuntime::wait_until(uint64_t deadline_ns, const std::function<bool()>& ready) {
  std::unique_lock lock(loop_->mutex);
  while (!ready()) {
    const uint64_t now = clock().now_ns();
    if (now >= deadline_ns) return false;
    loop_->changed.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now, kSecond)));
  }
  return true;
}

std::shared_ptr<ChangeSignal> AsioRuntime::signal_changes() {
  auto signal = ChangeSignal::make();
  if (signal == nullptr) return nullptr;
  std::lock_guard lock(loop_->mutex);
  std::erase_if(loop_->signals, [](const auto& other) { return other.expired(); });
  loop_->signals.push_back(signal);
  return signal;
}

void AsioRuntime::wake() {
  std::lock_guard lock(loop_->mutex);
  loop_->changed.notify_all();
  for (const auto& each : loop_->signals) {
    if (const auto signal = each.lock()) signal->tell();
  }
}

void AsioRuntime::note_shortage(Error error) {
  const std::lock_guard lock(loop_->mutex);
  loop_->shortage = std::move(error);
}

std::optional<Error> AsioRuntime::shortage() const {
  const std::lock_guard lock(loop_->mutex);
  return loop_->shortage;
}

void AsioRuntime::run(const std::function<void()>& work) {
  bool finished = false;
  asio::post(loop_->context, [&] {
    work();
    std::lock_guard lock(loop_->mutex);
    finished = true;
    loop_->changed.notify_all();
  });
  wait_until(kNever, [&] { return finished; });
}

}  // namespace farpage
