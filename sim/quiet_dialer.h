#pragma once

#include <utility>

#include "base/runtime.h"
#include "control/link.h"

namespace farpage {

// Leads to nodes that are not there: the first dial of a link fails, so that no caller waits for
// it, and later ones are never answered, so that they cost a simulation nothing.
class QuietDialer final : public ControlDialer {
 public:
  explicit QuietDialer(Runtime& runtime) : runtime_(runtime) {}

  void dial(DialCallback done) override {
    if (std::exchange(dialed_, true)) return;
    runtime_.after(0, [done = std::move(done)] {
      done(fail(Code::kUnavailable, "this node is not simulated"));
    });
  }

 private:
  Runtime& runtime_;
  bool dialed_ = false;
};

}  // namespace farpage
