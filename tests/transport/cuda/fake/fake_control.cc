#include "tests/transport/cuda/fake/fake_control.h"

#include <atomic>
#include <cstring>

#include "tests/transport/cuda/fake/device/handles.h"
#include "tests/transport/cuda/fake/state.h"
#include "tests/transport/cuda/fake/streams.h"

namespace farpage::cuda {
namespace {

void reset(const FakeSettings& settings) {
  State& all = state();
  std::unique_lock lock(all.mutex);
  end_streams(lock);
  all.settings = settings;
  all.random.seed(settings.seed);
  all.initialized = false;
  all.all_held = false;
  all.turn = nullptr;
  all.streams.clear();
  all.contexts.clear();
  all.events.clear();
  all.modules.clear();
  all.graphs.clear();
  all.graph_execs.clear();
  all.ranges.clear();
  all.handles.clear();
  all.held_writes.clear();
  all.faults.clear();
  all.calls.clear();
  all.broken_rules = 0;
  all.last_broken_rule.clear();
  all.copies_to_devices = all.pages_of_layouts = all.refusable = all.refused = 0;
}

FakeCounts live() {
  const State& all = state();
  const std::lock_guard lock(state().mutex);
  FakeCounts counts;
  for (const auto& context : all.contexts) counts.contexts += context->retained > 0;
  for (const auto& module : all.modules) counts.modules += !module->unloaded;
  for (const auto& stream : all.streams) {
    counts.streams += !stream->destroyed;
    counts.operations += static_cast<int>(stream->queue.size());
  }
  for (const auto& event : all.events) counts.events += !event->destroyed;
  counts.device_ranges = static_cast<int>(all.handles.size());
  for (const auto& range : all.ranges) {
    ++(range->on_host() ? counts.host_ranges : counts.device_ranges);
  }
  return counts;
}

uint64_t calls(const char* function) {
  const std::lock_guard lock(state().mutex);
  const auto counted = state().calls.find(std::string_view(function));
  return counted == state().calls.end() ? 0 : counted->second;
}

void fail_call(const char* function, int nth, int result) {
  const std::lock_guard lock(state().mutex);
  state().faults[function] = {nth, result};
}

void end_context(Context context, int result) {
  const std::lock_guard lock(state().mutex);
  break_context(context, result);
}

void set_held(Stream stream, bool held) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  if (stream != nullptr) {
    stream->held = held;
    stream->freed = !held;
  } else {
    all.all_held = held;
    for (const auto& it : all.streams) {
      it->held = held;
      it->freed = false;
    }
  }
  all.changed.notify_all();
}

void hold(Stream stream) {
  set_held(stream, true);
}

void release(Stream stream) {
  set_held(stream, false);
}

std::shared_ptr<Range> range_with(uint64_t address, size_t count, bool to_write) {
  auto range = find_range(state().ranges, address);
  if (range != nullptr && !range->covers(address, count, to_write)) range = nullptr;
  return range;
}

int nic_write(uint64_t address, const void* bytes, size_t count, NicWrite how) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const auto range = range_with(address, count, true);
  if (range == nullptr) return kIllegalAddress;
  constexpr int kOrderedForOwner = 100;
  const bool seen = range->on_host() || all.settings.writes_ordering >= kOrderedForOwner ||
                    how == NicWrite::kOvertakes;
  const auto* const begin = static_cast<const std::byte*>(bytes);
  if (!seen) {
    all.held_writes.push_back({address, {begin, begin + count}});
    return kSuccess;
  }
  std::byte* const to = range->memory + (address - range->base);
  if (count == sizeof(uint64_t) && address % count == 0) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, count);
    std::atomic_ref(*reinterpret_cast<uint64_t*>(to)).store(word, std::memory_order_release);
  } else {
    std::memcpy(to, bytes, count);
  }
  all.changed.notify_all();
  return kSuccess;
}

int peek(uint64_t address, void* bytes, size_t count) {
  const std::lock_guard lock(state().mutex);
  const auto range = range_with(address, count, false);
  if (range == nullptr) return kIllegalAddress;
  std::memcpy(bytes, range->memory + (address - range->base), count);
  return kSuccess;
}

int broken_rules(const char** last) {
  const std::lock_guard lock(state().mutex);
  if (last != nullptr) *last = state().last_broken_rule.c_str();
  return state().broken_rules;
}

}  // namespace

const FakeControl* farpage_fake_cuda() {
  static constexpr FakeControl kControl{reset,       live,    fail_call, calls, end_context,
                                        hold,        release, nic_write, peek,  describe_handle,
                                        broken_rules};
  return &kControl;
}

}  // namespace farpage::cuda
