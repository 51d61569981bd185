#include "cli/replay_trace.h"

#include <fmt/format.h>

#include <utility>

#include "bench/agent_trace.h"
#include "bench/find_trace.h"

namespace farpage {
namespace {

constexpr uint64_t kMaxGeneratedRequests = 10'000'000;

Result<LoadedTrace> generate(const TraceArguments& arguments, std::string origin) {
  if (arguments.requests > kMaxGeneratedRequests) {
    return fail(Code::kInvalid,
                fmt::format("a synthetic trace of {} requests is too long: choose at most {}",
                            arguments.requests, kMaxGeneratedRequests));
  }
  TraceGeneratorOptions options;
  options.seed = arguments.seed;
  if (arguments.requests > 0) options.requests = arguments.requests;
  return LoadedTrace{generate_trace(options), std::move(origin)};
}

}  // namespace

Result<LoadedTrace> load_trace(const TraceArguments& arguments) {
  if (arguments.format == kAccessFormat) {
    return fail(Code::kInvalid,
                "--format access has no requests to send to a node: add --policy and --budget");
  }
  if (arguments.trace == kGenerate)
    return generate(arguments, "made by the built-in generator (synthetic)");
  FoundTrace found = {arguments.trace, "named on the command line"};
  if (found.path.empty() && arguments.format == "agent") {
    return fail(Code::kInvalid, "--format agent: name a session, or a folder of them");
  }
  if (found.path.empty()) found = find_trace();
  if (found.path.empty()) {
    return generate(arguments, found.explanation + ": made by the built-in generator (synthetic)");
  }
  Result<Trace> trace = arguments.format == "agent"
                            ? read_agent_trace(found.path, arguments.requests)
                            : read_mooncake_trace(found.path, arguments.requests);
  if (!trace) return tl::unexpected(trace.error());
  return LoadedTrace{std::move(*trace), std::move(found.explanation)};
}

}  // namespace farpage
