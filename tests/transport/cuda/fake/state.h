#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/transport/cuda/fake/device/memory.h"
#include "tests/transport/cuda/fake/entries.h"
#include "tests/transport/cuda/fake/fake_control.h"

namespace farpage::cuda {

// One recording of an event.
struct Recording {
  bool done = false;
  double at_ms = 0;
};

// An operation on a stream.
struct Operation {
  std::function<bool()> ready;  // under the lock; empty: at once
  std::function<int()> run;     // without the lock; what it returns breaks the context
  bool polls = false;           // it becomes ready without a call: by bytes in memory
  Ranges uses;
  Module module = nullptr;  // of a kernel
};

struct ContextTag {
  int device = 0;
  int retained = 0;
  int error = kSuccess;  // sticky
  std::unique_ptr<StreamTag> default_stream;
};
// What a stream has captured, in its order.
struct GraphTag {
  Context context = nullptr;
  std::vector<Operation> operations;
};
struct GraphExecTag {
  GraphTag graph;
};
struct StreamTag {
  Context context = nullptr;
  bool destroyed = false;
  bool held = false;
  bool freed = false;           // although all are held
  std::deque<Operation> queue;  // the first one is under way, if it is the stream's turn
  std::thread thread;
  std::unique_ptr<GraphTag> captured;  // null: what is put on it runs
  int capture_mode = 0;
  bool capture_lost = false;
};
struct EventTag {
  Context context = nullptr;
  bool destroyed = false;
  bool timed = true;
  std::shared_ptr<Recording> recording;  // null: never recorded
};
struct FunctionTag {
  std::string name;
  int most_shared_bytes = 48 * 1024;
};
struct ModuleTag {
  Context context = nullptr;
  bool unloaded = false;
  std::map<std::string, FunctionTag> functions;
};

struct HeldWrite {
  uint64_t address = 0;
  std::vector<std::byte> bytes;
};
struct Fault {
  int calls_left = 0;
  int result = kSuccess;
};

// All that the fake knows. Handles that were destroyed stay, so that their use is seen.
struct State {
  std::mutex mutex;
  std::condition_variable changed;
  FakeSettings settings;
  bool initialized = false;
  bool ending = false;
  bool all_held = false;
  std::mt19937_64 random;
  Stream turn = nullptr;  // the one whose first operation is under way
  std::vector<std::unique_ptr<ContextTag>> contexts;
  std::vector<std::unique_ptr<StreamTag>> streams;
  std::vector<std::unique_ptr<EventTag>> events;
  std::vector<std::unique_ptr<ModuleTag>> modules;
  std::vector<std::unique_ptr<GraphTag>> graphs;
  std::vector<std::unique_ptr<GraphExecTag>> graph_execs;
  Ranges ranges;
  std::map<unsigned long long, std::shared_ptr<Physical>> handles;  // of cuMemCreate
  unsigned long long last_handle = 0;
  std::vector<HeldWrite> held_writes;
  std::map<std::string, Fault, std::less<>> faults;
  std::map<std::string, uint64_t, std::less<>> calls;  // by function
  int broken_rules = 0;
  std::string last_broken_rule;
  uint64_t copies_to_devices = 0;
  uint64_t pages_of_layouts = 0;  // of kernels
  uint64_t refusable = 0;         // calls
  uint64_t refused = 0;           // of those, as FakeSettings::refuse_every says
};

State& state();

// The context that is current on this thread; null: none.
Context& current_context();
// Those under it, that come back with each cuCtxPopCurrent.
std::vector<Context>& pushed_contexts();
// CU_STREAM_CAPTURE_MODE of this thread: 0 global, 1 of its own, 2 relaxed.
int& capture_mode();
// Whether this thread is in a function of cuLaunchHostFunc.
bool& in_host_function();

// Of the caller: counts what it did wrong. It returns `result`, under the lock.
int breaks_rule(const char* function, const std::string& rule, int result);
void break_context(Context context, int result);
uint64_t device_bytes_in_use(int device);
// Makes writes of NICs visible that were held back.
void make_visible(int device);

enum class Needs { kInitialized, kContext };

// Begin of a call: it holds the lock until it ends. `result`: why the call fails at once.
struct Call {
  Call(const char* function, Needs needs);
  int misused(const std::string& rule, int with = kInvalidValue) const {
    return breaks_rule(function, rule, with);
  }
  // Whether it is this call's turn to be refused (FakeSettings::refuse_every); sets `result`.
  bool is_refused();
  // The stream of the current context: null with `result` set if it is not one.
  Stream stream_of(Stream stream);
  Event event_of(Event event);

  const char* function;
  std::unique_lock<std::mutex> lock;
  Context context = nullptr;
  int result = kSuccess;
};

}  // namespace farpage::cuda
