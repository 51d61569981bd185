#pragma once

#include <memory>

#include "base/runtime.h"

namespace boost::asio {
class io_context;
}

namespace farpage {

// A Runtime that is one thread with an event loop. The destructor stops the thread; callbacks that
// have not run by then never do.
class AsioRuntime final : public Runtime {
 public:
  AsioRuntime();
  ~AsioRuntime() override;

  const Clock& clock() const override;
  void after(uint64_t delay_ns, std::function<void()> callback) override;
  bool wait_until(uint64_t deadline_ns, const std::function<bool()>& ready) override;
  void notify() override;

  // Runs `work` on the runtime's thread and returns when it has run. Not from the thread itself.
  void run(const std::function<void()>& work);

  boost::asio::io_context& context();

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace farpage
