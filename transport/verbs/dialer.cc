#include "transport/verbs/dialer.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace farpage::verbs {
namespace {

// A dial that has had less time than this, for want of a thread say, says nothing against its path.
constexpr uint64_t kLeastDialNs = 20 * kMillisecond;

}  // namespace

void Arrivals::bring(size_t path, Result<std::unique_ptr<SendQueue>> dialled) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  paths_[path].ended = true;
  if (dialled) {
    paths_[path].connection = std::move(*dialled);
  } else {
    error_ = dialled.error();
  }
  any_.store(true, std::memory_order_release);
  changed_.notify_all();
}

std::unique_ptr<SendQueue> Arrivals::take(size_t path, bool& ended) {
  std::lock_guard lock(mutex_);
  ended = std::exchange(paths_[path].ended, false);
  auto connection = std::move(paths_[path].connection);
  any_.store(std::any_of(paths_.begin(), paths_.end(), [](const Path& one) { return one.ended; }),
             std::memory_order_release);
  return connection;
}

void Arrivals::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (Path& path : paths_) path.connection.reset();
}

Result<void> Arrivals::wait_for_first(size_t paths, uint64_t grace_ns, uint64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  const auto count = [&](auto is) {
    return static_cast<size_t>(std::count_if(paths_.begin(), paths_.end(), is));
  };
  const auto connected = [&] {
    return count([](const Path& path) { return path.connection != nullptr; });
  };
  const auto ended = [&] { return count([](const Path& path) { return path.ended; }); };
  const auto wait = [&](uint64_t until_ns, const auto& ready) {
    const uint64_t now = boottime_clock().now_ns();
    if (now >= until_ns) return;
    changed_.wait_for(lock, std::chrono::nanoseconds(until_ns - now), ready);
  };
  wait(deadline_ns, [&] { return connected() > 0 || ended() == paths; });
  wait(std::min(deadline_ns, boottime_clock().now_ns() + grace_ns),
       [&] { return ended() == paths; });
  if (connected() > 0) return {};
  return tl::unexpected(error_);
}

Dialer::~Dialer() {
  stopped_.store(true);
  jobs_.stop();
}

// The paths go over the devices in turn; with one device, or where the user has named none, the
// kernel's routes choose.
size_t Dialer::device_for(size_t path) const {
  return devices_->were_named() ? path % devices_->size() : devices_->size();
}

void Dialer::dial(const std::shared_ptr<Arrivals>& arrivals, const Endpoint& where,
                  const ConnectWire& introduction, uint64_t deadline_ns, bool one_path) {
  const auto job = [this, arrivals, where, introduction, deadline_ns, one_path] {
    bool refused = false;
    const bool had_time = boottime_clock().now_ns() + kLeastDialNs <= deadline_ns;
    const auto cancelled = [&] { return stopped_.load() || arrivals->is_closed(); };
    auto connection = verbs::dial(*devices_, device_for(introduction.path), where, introduction,
                                  deadline_ns, cancelled, refused);
    // The waiting caller closes the channel at the same deadline, but that is not why this one has
    // ended.
    const bool was_silent = !connection && connection.error().code == Code::kTimeout;
    const bool is_its_own = was_silent ? had_time : !cancelled();
    if (!connection && is_its_own && !(one_path && refused)) {
      health_.broke(where, boottime_clock().now_ns());
      ledger_.failed(device_for(introduction.path), where);
    }
    arrivals->bring(introduction.path,
                    std::move(connection).map([&](std::unique_ptr<Connection> made) {
                      auto counters = ledger_.connected(made->device, where);
                      return std::make_unique<SendQueue>(std::move(made), std::move(counters));
                    }));
  };
  if (!jobs_.take(JobClass::kDial, job)) {
    arrivals->bring(introduction.path, fail(Code::kExhausted,
                                            "cannot start a thread that connects: raise the limit "
                                            "of processes (ulimit -u)"));
  }
}

void Dialer::dispose(std::unique_ptr<SendQueue> queue) {
  // Emptied there, so that it is not this thread that holds it last.
  const auto box = std::make_shared<std::unique_ptr<SendQueue>>(std::move(queue));
  jobs_.take(JobClass::kDispose, [box] { box->reset(); });
}

}  // namespace farpage::verbs
