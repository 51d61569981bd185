#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/change_signal.h"
#include "base/clock.h"

namespace farpage {

// Kinds of blocking work. No class waits for another one's threads.
enum class JobClass : uint8_t {
  kDial,     // reaches a peer that may be dead
  kConnect,  // connects to a peer that has answered, or makes memory for one
  kDispose,  // destroys what may wait for a device before it goes
};
inline constexpr size_t kJobClasses = 3;

// Time, and a place where callbacks run one after another. In a process it is a thread
// (net/runtime/asio_runtime.h); in a simulation it is virtual time (sim/network/world.h). Code
// above it is the same in both.
//
// Threading: every member may be called from any thread. Callbacks run on the runtime's own thread,
// or, in a simulation, inside wait_until.
class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual const Clock& clock() const = 0;
  // The machine's wall clock, which is set where clock() never is; clock() itself where there is
  // none.
  virtual const Clock& wall_clock() const { return clock(); }

  // Runs `callback` once, `delay_ns` from now (0: as soon as possible, in order of posting).
  virtual void after(uint64_t delay_ns, std::function<void()> callback) = 0;

  // Runs `work`, which may block, once, beside the callbacks; in a simulation as one of them, for
  // nothing blocks there. Work of one class begins in order of posting.
  virtual void offload(JobClass job, std::function<void()> work) = 0;

  // Blocks until `ready` returns true or the deadline has come, and returns the last answer of
  // `ready`. `ready` is asked at the start, after each notify() and at the deadline. Never called
  // from a callback.
  virtual bool wait_until(uint64_t deadline_ns, const std::function<bool()>& ready) = 0;

  // One that every notify() tells from now on, for as long as somebody holds it: for who waits on
  // descriptors too. nullptr: this runtime has none to give, as in a simulation.
  virtual std::shared_ptr<ChangeSignal> signal_changes() { return nullptr; }

  // Something that a waiter may be waiting for has changed. Called after the change.
  void notify() {
    changes_.fetch_add(1);
    wake();
  }
  // Grows with each notify() of this object: a loop that depends on many things looks at them when
  // it has grown. A runtime that wraps another hears only of its own. In one order with
  // ChangeSignal::arm().
  uint64_t changes() const { return changes_.load(); }

 private:
  // Has waiters ask their `ready` again, and tells the signals.
  virtual void wake() = 0;

  std::atomic<uint64_t> changes_{0};
};

}  // namespace farpage
