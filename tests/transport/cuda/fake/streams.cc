#include "tests/transport/cuda/fake/streams.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace farpage::cuda {
namespace {

constexpr auto kPoll = std::chrono::microseconds(50);

bool could_start(const StreamTag& stream) {
  if (stream.queue.empty()) return false;
  if (stream.context->error != kSuccess || state().ending) return true;  // to drop it
  if (stream.held || (state().all_held && !stream.freed)) return false;
  const Operation& first = stream.queue.front();
  return !first.ready || first.ready();
}

// Chooses who goes on. One operation runs at a time, so that a seed gives one order of what is
// there.
void give_turn() {
  State& all = state();
  if (all.turn != nullptr) return;
  std::vector<Stream> can;
  for (const auto& stream : all.streams) {
    if (could_start(*stream)) can.push_back(stream.get());
  }
  for (const auto& context : all.contexts) {
    if (context->default_stream != nullptr && could_start(*context->default_stream)) {
      can.push_back(context->default_stream.get());
    }
  }
  if (can.empty()) return;
  all.turn = can[all.random() % can.size()];
  all.changed.notify_all();
}

void run_first(Stream stream, std::unique_lock<std::mutex>& lock) {
  State& all = state();
  Operation& first = stream->queue.front();  // it stays where it is: only this thread takes it
  if (all.settings.delay_us > 0) {
    const std::chrono::microseconds delay(all.random() % (all.settings.delay_us + 1));
    all.changed.wait_for(lock, delay, [&all] { return all.ending; });
  }
  if (stream->context->error == kSuccess && !all.ending && first.run) {
    lock.unlock();
    const int result = first.run();
    lock.lock();
    if (result != kSuccess) break_context(stream->context, result);
  }
  for (const auto& range : first.uses) --range->users;
  stream->queue.pop_front();
  all.turn = nullptr;
  all.changed.notify_all();
}

void run_stream(Stream stream) {
  State& all = state();
  std::unique_lock lock(all.mutex);
  for (;;) {
    give_turn();
    if (all.turn == stream) {
      run_first(stream, lock);
      continue;
    }
    if (stream->queue.empty() && (stream->destroyed || all.ending)) return;
    if (!stream->queue.empty() && stream->queue.front().polls) {
      all.changed.wait_for(lock, kPoll);
    } else {
      all.changed.wait(lock);
    }
  }
}

}  // namespace

std::unique_ptr<StreamTag> start_stream(Context context) {
  auto made = std::make_unique<StreamTag>();
  made->context = context;
  made->thread = std::thread(run_stream, made.get());
  return made;
}

Stream default_stream(Context context) {
  if (context->default_stream == nullptr) context->default_stream = start_stream(context);
  return context->default_stream.get();
}

void enqueue(Stream stream, Operation operation) {
  if (stream->captured != nullptr) {
    stream->captured->operations.push_back(std::move(operation));
    return;
  }
  for (const auto& range : operation.uses) ++range->users;
  stream->queue.push_back(std::move(operation));
  state().changed.notify_all();
}

void end_streams(std::unique_lock<std::mutex>& lock) {
  State& all = state();
  all.ending = true;
  all.changed.notify_all();
  std::vector<std::thread> threads;
  const auto take = [&](StreamTag& stream) {
    if (stream.thread.joinable()) threads.push_back(std::move(stream.thread));
  };
  for (const auto& stream : all.streams) take(*stream);
  for (const auto& context : all.contexts) {
    if (context->default_stream != nullptr) take(*context->default_stream);
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  lock.lock();
  all.ending = false;
}

}  // namespace farpage::cuda
