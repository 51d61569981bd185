#pragma once

#include "tests/transport/cuda/fake/state.h"

namespace farpage::cuda {

// All of these under the lock.

// Of the context, with its thread.
std::unique_ptr<StreamTag> start_stream(Context context);
// That of the null handle. It is a stream like any other: it does not wait for the others, nor they
// for it, as the legacy default stream would make them. So it is stricter.
Stream default_stream(Context context);
// Puts an operation behind all others of the stream, and counts it as a user of what it uses; or
// into the graph, if the stream is captured.
void enqueue(Stream stream, Operation operation);
// Drops what is on every stream, and ends their threads.
void end_streams(std::unique_lock<std::mutex>& lock);

}  // namespace farpage::cuda
