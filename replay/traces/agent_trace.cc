#include "replay/traces/agent_trace.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "replay/text/line_reader.h"
#include "replay/traces/agent_session.h"
#include "replay/traces/request_store.h"
#include "replay/traces/trace_json.h"

namespace farpage {
namespace {

using simdjson::dom::element;

constexpr std::array<std::string_view, 2> kOfLines = {".jsonl", ".jsonl.gz"};
constexpr std::array<std::string_view, 4> kOfSessions = {".json", ".json.gz", ".jsonl",
                                                         ".jsonl.gz"};

template <size_t kCount>
bool ends_in(const std::array<std::string_view, kCount>& endings, std::string_view name) {
  return std::ranges::any_of(endings, [&](std::string_view end) { return name.ends_with(end); });
}

Result<std::vector<std::string>> files_at(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector{path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (ends_in(kOfSessions, entry.path().native())) files.push_back(entry.path());
  }
  if (error) return fail_errno(error.value(), fmt::format("cannot read the folder {}", path));
  if (files.empty()) {
    return fail(Code::kInvalid,
                fmt::format("{}: no file there ends in .json or .jsonl (.gz may follow): give a "
                            "folder of sessions",
                            path));
  }
  std::ranges::sort(files);
  return files;
}

// Of one file after another.
class TraceReader {
 public:
  Result<void> read_file(const std::string& path) {
    auto lines = LineReader::open(path, kMaxSessionBytes);
    if (!lines) return tl::unexpected(lines.error());
    const bool is_of_lines = ends_in(kOfLines, path);
    bool has_lines = false;  // one of them was a session
    while (true) {
      const auto line = lines->next();
      if (!line) return tl::unexpected(line.error());
      if (!*line) return {};
      if ((*line)->find_first_not_of(" \t\r") == std::string_view::npos) continue;
      std::string_view text = **line;
      element session;
      auto parsed = parse(text, session);
      // A line that is not a session by itself may be one that goes on in further lines.
      if (parsed && !has_lines && !is_of_lines) {
        const auto whole = lines->with_rest();
        if (!whole) return tl::unexpected(whole.error());
        parsed = parse(*whole, session);
        if (parsed) return refuse(path, *parsed);
      }
      const auto added = parsed ? fail_with(*parsed) : add(path, session);
      if (!added && (has_lines || is_of_lines)) return lines->refuse(added.error().message);
      if (!added) return refuse(path, added.error().message);
      has_lines = true;
    }
  }

  StoredTrace finish() && {
    trace_.order = trace_.requests.by_time();
    return std::move(trace_);
  }

 private:
  std::optional<std::string> parse(std::string_view text, element& session) {
    const auto error = parser_.parse(text.data(), text.size(), false).get(session);
    if (!error) return std::nullopt;
    return fmt::format("this is no JSON: {}", describe(error));
  }

  static Result<void> fail_with(const std::string& why) { return fail(Code::kInvalid, why); }
  static Result<void> refuse(const std::string& path, const std::string& why) {
    return fail(Code::kInvalid, fmt::format("{}: {}", path, why));
  }

  Result<void> add(const std::string& path, element session) {
    if (sessions_ == kMaxSessions) {
      return fail_with(fmt::format("it is one of more than {} sessions: give fewer", kMaxSessions));
    }
    const auto read = add_agent_session(session, sessions_, trace_.requests);
    if (!read) return tl::unexpected(read.error());
    ++sessions_;
    if (!read->has_times && timeless_.empty()) timeless_ = path;
    if (!timeless_.empty() && sessions_ > 1) {
      return fail_with(fmt::format(
          "t is missing from a session ({}): several are put in order by it. A single session is "
          "replayed without: give a file that has one",
          timeless_));
    }
    if (trace_.requests.size() > std::numeric_limits<uint32_t>::max()) {
      return fail_with("more requests than 32 bits can number: give fewer sessions");
    }
    if (!read->block_tokens) return {};
    if (!trace_.block_tokens) trace_.block_tokens = read->block_tokens;
    if (*trace_.block_tokens == *read->block_tokens) return {};
    return fail_with(fmt::format("block_size is {}, and that of the sessions before {}",
                                 *read->block_tokens, *trace_.block_tokens));
  }

  simdjson::dom::parser parser_;
  StoredTrace trace_;
  uint32_t sessions_ = 0;
  std::string timeless_;  // the file of a session that has no times
};

Result<std::shared_ptr<const StoredTrace>> store(const std::string& path) {
  const auto files = files_at(path);
  if (!files) return tl::unexpected(files.error());
  TraceReader reader;
  for (const std::string& file : *files) {
    if (auto read = reader.read_file(file); !read) return tl::unexpected(read.error());
  }
  auto trace = std::make_shared<const StoredTrace>(std::move(reader).finish());
  if (trace->requests.size() > 0) return trace;
  return fail(Code::kInvalid, fmt::format("{}: no request of the trace has a page: give a session "
                                          "of an agent, or a folder of them",
                                          path));
}

}  // namespace

Result<std::unique_ptr<RequestStream>> open_agent_trace(const std::string& path) {
  return store(path).map([](const auto& trace) { return stream_of(trace); });
}

Result<OpenRequests> keep_agent_trace(const std::string& path) {
  return store(path).map([](const auto& trace) -> OpenRequests {
    return [trace](const std::string&) -> Result<std::unique_ptr<RequestStream>> {
      return stream_of(trace);
    };
  });
}

Result<Trace> read_agent_trace(const std::string& path, uint64_t max_requests) {
  return read_trace(open_agent_trace, path, max_requests);
}

}  // namespace farpage
