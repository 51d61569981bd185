#pragma once

#include <functional>
#include <memory>

#include "base/log.h"
#include "base/unique_fd.h"
#include "net/runtime/asio_runtime.h"

namespace farpage {

// Accepts connections to a listening socket. When there is no descriptor left, it tries again a
// little later. Used on the loop's thread alone.
class AcceptLoop : public std::enable_shared_from_this<AcceptLoop> {
 public:
  using Handler = std::function<void(UniqueFd)>;

  AcceptLoop(AsioRuntime& loop, UniqueFd listening, Handler accepted);

  void start();
  // No handler runs any more, and the socket is closed.
  void stop();

 private:
  void await();
  void accept();

  AsioRuntime& loop_;
  UniqueFd listening_;
  const Handler accepted_;
  std::unique_ptr<Watch> watch_;  // null: stopped
  WarningLimiter warnings_;
};

}  // namespace farpage
