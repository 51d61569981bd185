// CUDA Driver API, Stream Management (capture) and Graph Management: of one stream, without events.

#include <algorithm>

#include "tests/transport/cuda/fake/state.h"
#include "tests/transport/cuda/fake/streams.h"

namespace farpage::cuda {
namespace {

constexpr int kCaptureActive = 1;  // CU_STREAM_CAPTURE_STATUS_ACTIVE

template <typename Tag>
auto find(const std::vector<std::unique_ptr<Tag>>& all, const Tag* wanted) {
  return std::ranges::find_if(all, [wanted](const auto& it) { return it.get() == wanted; });
}

}  // namespace

extern "C" {

// "When a stream is in capture mode, all operations pushed into the stream will not be executed,
// but will instead be captured into a graph"; the legacy default stream cannot be captured.
int cuStreamBeginCapture_v2(Stream stream, int mode) {
  Call call("cuStreamBeginCapture_v2", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  if (mode < 0 || mode > 2) return call.misused("the mode is unknown");
  if (stream == nullptr) return call.misused("the default stream cannot be captured");
  if (on->captured != nullptr) return call.misused("the stream is captured already");
  on->captured = std::make_unique<GraphTag>();
  on->captured->context = call.context;
  on->capture_mode = mode;
  on->capture_lost = false;
  return kSuccess;
}

int cuStreamEndCapture(Stream stream, Graph* graph) {
  Call call("cuStreamEndCapture", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  if (on->captured == nullptr) return call.misused("the stream is not captured");
  if (on->capture_lost) {
    on->captured.reset();
    return kCaptureInvalidated;
  }
  *graph = on->captured.get();
  state().graphs.push_back(std::move(on->captured));
  return kSuccess;
}

// "Swaps the stream capture interaction mode for a thread."
int cuThreadExchangeStreamCaptureMode(int* mode) {
  const Call call("cuThreadExchangeStreamCaptureMode", Needs::kInitialized);
  if (call.result != kSuccess) return call.result;
  if (*mode < 0 || *mode > 2) return call.misused("the mode is unknown");
  std::swap(*mode, capture_mode());
  return kSuccess;
}

int cuStreamIsCapturing(Stream stream, int* status) {
  Call call("cuStreamIsCapturing", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  *status = on->captured != nullptr ? kCaptureActive : 0;
  return kSuccess;
}

int cuGraphInstantiateWithFlags(GraphExec* made, Graph graph, unsigned long long flags) {
  const Call call("cuGraphInstantiateWithFlags", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  if (find(state().graphs, graph) == state().graphs.end() || flags != 0) {
    return call.misused("there is no such graph, or a flag is unknown");
  }
  state().graph_execs.push_back(std::make_unique<GraphExecTag>(GraphExecTag{*graph}));
  *made = state().graph_execs.back().get();
  return kSuccess;
}

// "Executes graphExec in stream": its operations as they were captured, behind what is there.
int cuGraphLaunch(GraphExec graph, Stream stream) {
  Call call("cuGraphLaunch", Needs::kContext);
  const Stream on = call.result == kSuccess ? call.stream_of(stream) : nullptr;
  if (on == nullptr) return call.result;
  if (find(state().graph_execs, graph) == state().graph_execs.end()) {
    return call.misused("there is no such graph");
  }
  for (const Operation& operation : graph->graph.operations) enqueue(on, operation);
  return kSuccess;
}

// It destroys no graph that was instantiated from it.
int cuGraphDestroy(Graph graph) {
  const Call call("cuGraphDestroy", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  const auto found = find(state().graphs, graph);
  if (found == state().graphs.end()) return call.misused("there is no such graph");
  state().graphs.erase(found);
  return kSuccess;
}

// What was launched goes on.
int cuGraphExecDestroy(GraphExec graph) {
  const Call call("cuGraphExecDestroy", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  const auto found = find(state().graph_execs, graph);
  if (found == state().graph_execs.end()) return call.misused("there is no such graph");
  state().graph_execs.erase(found);
  return kSuccess;
}

}  // extern "C"
}  // namespace farpage::cuda
