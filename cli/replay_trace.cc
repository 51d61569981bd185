#include "cli/replay_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "bench/agent_trace.h"
#include "bench/azure_trace.h"
#include "bench/find_trace.h"

namespace farpage {
namespace {

struct Reader {
  std::string_view format;
  Result<Trace> (*read)(const std::string& path, uint64_t max_requests);
  const char* needs;   // what has to be named; null: one is looked for
  const char* remark;  // for who reads where a trace is from
};
constexpr std::array<Reader, kFormats.size() - 1> kReaders = {{
    {"mooncake", read_mooncake_trace, nullptr, ""},
    {"agent", read_agent_trace, "a session, or a folder of them", ""},
    {"azure", read_azure_trace, "a file", " (lengths without contents: no page comes twice)"},
}};

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
  const auto reader = std::ranges::find(kReaders, arguments.format, &Reader::format);
  if (found.path.empty() && reader->needs != nullptr) {
    return fail(Code::kInvalid, fmt::format("--format {}: name {}", reader->format, reader->needs));
  }
  if (found.path.empty()) found = find_trace();
  if (found.path.empty()) {
    return generate(arguments, found.explanation + ": made by the built-in generator (synthetic)");
  }
  Result<Trace> trace = reader->read(found.path, arguments.requests);
  if (!trace) return tl::unexpected(trace.error());
  return LoadedTrace{std::move(*trace), found.explanation + reader->remark};
}

}  // namespace farpage
