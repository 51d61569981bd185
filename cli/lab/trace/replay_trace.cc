#include "cli/lab/trace/replay_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "lab/kvhl/workload.h"
#include "lab/paging/access_file.h"
#include "replay/traces/agent_trace.h"
#include "replay/traces/azure_trace.h"
#include "replay/traces/find_trace.h"

namespace farpage {
namespace {

struct Reader {
  std::string_view format;
  Result<std::unique_ptr<RequestStream>> (*open)(const std::string& path);
  // A trace that must be sorted is read once, for all its readers; null: open() reads it again.
  Result<OpenRequests> (*keep)(const std::string& path);
  const char* needs;   // what has to be named; null: one is looked for
  const char* remark;  // for who reads where a trace is from
};
constexpr std::array<Reader, 3> kReaders = {{
    {"mooncake", open_mooncake_trace, nullptr, nullptr, ""},
    {"agent", open_agent_trace, keep_agent_trace, "a session, or a file or folder of them", ""},
    {"azure", open_azure_trace, nullptr, "a file",
     " (lengths without contents: no page comes twice)"},
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

// Where a trace is, and what reads it.
struct Source {
  const Reader* reader = nullptr;  // null: it is made
  FoundTrace found;
};

Result<Source> source_of(const TraceArguments& arguments) {
  if (arguments.trace == kGenerate) {
    return Source{nullptr, {"", "made by the built-in generator (synthetic)"}};
  }
  const auto* reader = std::ranges::find(kReaders, arguments.format, &Reader::format);
  if (!arguments.trace.empty())
    return Source{reader, {arguments.trace, "named on the command line"}};
  if (reader->needs != nullptr) {
    return fail(Code::kInvalid, fmt::format("--format {}: name {}", reader->format, reader->needs));
  }
  FoundTrace found = find_trace();
  if (!found.path.empty()) return Source{reader, std::move(found)};
  found.explanation += ": made by the built-in generator (synthetic)";
  return Source{nullptr, std::move(found)};
}

Result<LoadedTrace> load(const Source& source, const TraceArguments& arguments) {
  if (source.reader == nullptr) return generate(arguments, source.found.explanation);
  const std::string& path = source.found.path;
  Result<Trace> trace = read_trace(source.reader->open, path, arguments.requests);
  if (!trace) return tl::unexpected(trace.error());
  return LoadedTrace{std::move(*trace), source.found.explanation + source.reader->remark};
}

bool is_of_accesses(std::string_view format) {
  return format == kAccessFormat || format == kKvhlFormat;
}

Result<paging::AccessTrace> load_access_trace(const TraceArguments& arguments) {
  if (arguments.trace.empty()) {
    return fail(Code::kInvalid, fmt::format("--format {}: name a file", arguments.format));
  }
  if (arguments.requests > 0) {
    return fail(Code::kInvalid,
                fmt::format("--format {} has no requests: leave --requests out", arguments.format));
  }
  if (arguments.format == kAccessFormat) return paging::open_access_file(arguments.trace);
  // Each of that project's workloads comes out of a generator.
  return kvhl::read_accesses(arguments.trace).map([&](std::vector<prefetch::Access> accesses) {
    return paging::trace_of_accesses(arguments.trace, true, std::move(accesses));
  });
}

// A file of another format is what most often is no trace of the one that is taken unless told.
// The error for a wrong kind of file (kNotFound) says what the file is, and needs no such hint.
Error with_format(Error error, const TraceArguments& arguments) {
  if (!arguments.trace.empty() && arguments.format == TraceArguments().format &&
      error.code != Code::kNotFound) {
    error.message += fmt::format(" (read as --format {}; others are {}, {}, {} and {})",
                                 kFormats[0], kFormats[1], kFormats[2], kFormats[3], kFormats[4]);
  }
  return error;
}

}  // namespace

Result<LoadedTrace> load_trace(const TraceArguments& arguments) {
  const auto source = source_of(arguments);
  if (!source) return tl::unexpected(source.error());
  return load(*source, arguments).map_error([&](Error error) {
    return with_format(std::move(error), arguments);
  });
}

Result<paging::AccessTrace> load_accesses(const TraceArguments& arguments) {
  if (is_of_accesses(arguments.format)) return load_access_trace(arguments);
  const auto source = source_of(arguments);
  if (!source) return tl::unexpected(source.error());
  const std::string& path = source->found.path;
  const auto accesses_of_file = [&](const OpenRequests& open) {
    return paging::accesses_of_file(open, path, arguments.requests);
  };
  const auto explained = [&](Error error) { return with_format(std::move(error), arguments); };
  const Reader* reader = source->reader;
  if (reader != nullptr && reader->keep != nullptr) {
    return reader->keep(path).and_then(accesses_of_file).map_error(explained);
  }
  // A pipe can be read only once.
  std::error_code ignored;
  if (reader != nullptr && std::filesystem::is_regular_file(path, ignored)) {
    return accesses_of_file(reader->open).map_error(explained);
  }
  auto loaded = load(*source, arguments);
  if (!loaded) return tl::unexpected(explained(std::move(loaded.error())));
  return paging::accesses_of(std::move(loaded->trace));
}

}  // namespace farpage
