#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/runtime.h"
#include "base/status.h"

namespace farpage {

// Whether one descriptor is ready, told on the loop's thread; used there alone. The descriptor is
// lent: it outlives the watch.
class Watch {
 public:
  // Callbacks that have not run by then never do.
  virtual ~Watch() = default;

  // Calls back once. At most one callback for each direction waits at one time.
  virtual void when_readable(std::function<void()> callback) = 0;
  virtual void when_writable(std::function<void()> callback) = 0;
};

// A Runtime that is one thread with an event loop (Boost.Asio). The destructor waits for offloaded
// work that has begun, and stops the thread; callbacks and work that have not run by then never do.
class AsioRuntime final : public Runtime {
 public:
  // Throws std::system_error, if there is no thread or no descriptor to be had.
  AsioRuntime();
  ~AsioRuntime() override;

  const Clock& clock() const override;
  const Clock& wall_clock() const override;
  void after(uint64_t delay_ns, std::function<void()> callback) override;
  void offload(JobClass job, std::function<void()> work) override;
  bool wait_until(uint64_t deadline_ns, const std::function<bool()>& ready) override;
  std::shared_ptr<ChangeSignal> signal_changes() override;
  void wake() override;

  // As after(0, callback), but at once if this is the runtime's thread.
  void dispatch(std::function<void()> callback);

  // Runs `work` on the runtime's thread and returns when it has run. Not from the thread itself.
  void run(const std::function<void()>& work);

  std::unique_ptr<Watch> watch(int fd);

  // What the process had none of when the runtime's work wanted it: whoever has waited in vain for
  // that work can tell why. The last such error; any thread.
  void note_shortage(Error error);
  std::optional<Error> shortage() const;

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace farpage
