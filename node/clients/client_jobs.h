#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/runtime.h"
#include "transport/fabric.h"

namespace farpage {

// A node's blocking jobs for its clients: jobs that make memory and connections, and jobs that end
// them. The runtime's threads run a few at a time, in the order in which they were asked for, but
// ends go first: so clients that come and go faster than that wait, and the resources of those that
// have gone do not pile up. In a simulation the jobs are callbacks, as all offloaded work is. Used
// on the runtime's thread.
class ClientJobs {
 public:
  static constexpr size_t kMostAtOnce = 8;
  // An end may last until its device gives up on a silent peer; one place is left for what is made.
  static constexpr size_t kMostEndsAtOnce = kMostAtOnce - 1;

  ClientJobs(Runtime& runtime, Fabric& fabric);
  // Waits for the jobs that have begun. Drops the others, and tells nobody of those that have
  // ended; destroys all that they hold before it returns.
  ~ClientJobs();

  // `work` on another thread, then `done` on the runtime's.
  void run(std::function<void(Fabric&)> work, std::function<void()> done) {
    add(std::move(work), std::move(done), false);
  }

  // Destroys `thing` on another thread.
  template <typename T>
  void end(T thing) {
    // The job empties the box, so that this thread never holds the thing last.
    auto box = std::make_shared<std::optional<T>>(std::move(thing));
    add([box](Fabric&) { box->reset(); }, [] {}, true);
  }

  // `done` on the runtime's thread, later, once all jobs that were asked for have ended.
  void when_ended(std::function<void()> done);

 private:
  struct Shared;
  void add(std::function<void(Fabric&)> work, std::function<void()> done, bool is_end);
  static void begin_one(const std::shared_ptr<Shared>& shared);
  static void tell(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;  // with the callbacks that the runtime has been given
};

}  // namespace farpage
