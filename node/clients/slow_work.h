#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/runtime.h"
#include "transport/fabric.h"

namespace farpage {

// What may block, of a node: to make memory and connections for its clients, and to end them. It
// runs beside the node's thread, a few at a time, begun in the order in which it was asked for, but
// for ends, which go first: so clients that come and go faster than that wait, and what was theirs
// does not pile up. Used on the runtime's thread.
class SlowWork {
 public:
  static constexpr size_t kMostAtOnce = 8;
  // An end may last until its device gives up on a silent peer, and something is made all the same.
  static constexpr size_t kMostEndsAtOnce = kMostAtOnce - 1;

  SlowWork(Runtime& runtime, Fabric& fabric);
  // Waits for what is under way. What has not begun never does, and nobody is told of what has
  // ended; all that they hold is destroyed before this returns.
  ~SlowWork();

  // `work` on another thread, then `done` on the runtime's.
  void run(std::function<void(Fabric&)> work, std::function<void()> done) {
    add(std::move(work), std::move(done), false);
  }

  // Destroys `thing` on another thread.
  template <typename T>
  void end(T thing) {
    // Emptied there, so that it is not this thread that holds it last.
    auto box = std::make_shared<std::optional<T>>(std::move(thing));
    add([box](Fabric&) { box->reset(); }, [] {}, true);
  }

  // `done` on the runtime's thread, later, once all that was asked for has ended.
  void when_ended(std::function<void()> done);

 private:
  struct Shared;
  void add(std::function<void(Fabric&)> work, std::function<void()> done, bool is_end);
  static void begin_one(const std::shared_ptr<Shared>& shared);
  static void tell(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;  // with what the runtime has been given
};

}  // namespace farpage
