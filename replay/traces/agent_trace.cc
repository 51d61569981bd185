#include "replay/traces/agent_trace.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "replay/traces/trace_json.h"

namespace farpage {
namespace {

using simdjson::dom::element;

constexpr unsigned kIdBits = 47;  // and 16 for the session: together no more than kMaxHashId
constexpr double kMaxSeconds = 1e12;
constexpr uint64_t kMaxBlockTokens = 1 << 20;

Result<std::vector<std::filesystem::path>> files_at(const std::string& path) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(path, error)) return std::vector{std::filesystem::path(path)};
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (error) return fail_errno(error.value(), fmt::format("cannot read the folder {}", path));
  if (files.empty()) {
    return fail(Code::kInvalid,
                fmt::format("{}: no file there ends in .json: give a folder of sessions", path));
  }
  if (files.size() > kMaxSessions) {
    return fail(Code::kInvalid, fmt::format("{} has {} sessions: {} at most can be read", path,
                                            files.size(), kMaxSessions));
  }
  std::ranges::sort(files);
  return files;
}

Result<TraceRequest> read_request(element from, uint64_t session) {
  simdjson::dom::object fields;
  if (from.get_object().get(fields) != simdjson::SUCCESS) {
    return fail(Code::kInvalid, "it is no object");
  }
  double seconds = -1;
  if (fields["t"].get_double().get(seconds) != simdjson::SUCCESS ||
      !(seconds >= 0 && seconds <= kMaxSeconds)) {
    return fail(Code::kInvalid, "t is no number of seconds from 0 on");
  }
  TraceRequest request;
  request.timestamp_ms = static_cast<uint64_t>(seconds * 1000);
  for (const auto& [name, tokens] :
       {std::pair("in", &request.input_length), std::pair("out", &request.output_length)}) {
    element field;
    if (fields[name].get(field) != simdjson::SUCCESS) {
      return fail(Code::kInvalid, fmt::format("{} is missing", name));
    }
    const auto number = read_number(name, field, INT64_MAX);
    if (!number) return tl::unexpected(number.error());
    *tokens = *number;
  }
  element ids;
  if (fields["hash_ids"].get(ids) != simdjson::SUCCESS) {
    return fail(Code::kInvalid, "hash_ids is missing");
  }
  auto read = read_hash_ids(ids, (uint64_t{1} << kIdBits) - 1);
  if (!read) return tl::unexpected(read.error());
  request.hash_ids = std::move(*read);
  for (uint64_t& id : request.hash_ids) id |= session << kIdBits;
  return request;
}

Result<void> read_session(const std::filesystem::path& path, uint64_t session, Trace& trace) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) return fail_errno(error.value(), fmt::format("cannot read {}", path.string()));
  const auto refuse = [&](const std::string& why) {
    return fail(Code::kInvalid, fmt::format("{}: {}", path.string(), why));
  };
  if (bytes > kMaxSessionBytes) return refuse("it is longer than 1 GiB, too long for a session");
  simdjson::dom::parser parser;
  element root;
  if (const auto parsed = parser.load(path.string()).get(root)) {
    return refuse(fmt::format("this is no JSON: {}", simdjson::error_message(parsed)));
  }
  element field;
  if (root["block_size"].get(field) != simdjson::SUCCESS) return refuse("block_size is missing");
  const auto block_tokens = read_number("block_size", field, kMaxBlockTokens);
  if (!block_tokens) return refuse(block_tokens.error().message);
  if (session == 0) trace.block_tokens = *block_tokens;
  if (*block_tokens != trace.block_tokens || *block_tokens == 0) {
    return refuse(fmt::format("block_size is {}, and that of the sessions before {}", *block_tokens,
                              trace.block_tokens));
  }
  simdjson::dom::array requests;
  if (root["requests"].get_array().get(requests) != simdjson::SUCCESS) {
    return refuse("requests is missing, or no array");
  }
  uint32_t turn = 0;
  uint64_t last_ms = 0;
  for (const element each : requests) {
    auto request = read_request(each, session);
    if (request && request->timestamp_ms < last_ms) {
      request = fail(Code::kInvalid, "it is earlier than the one before");
    }
    if (!request) return refuse(fmt::format("request {}: {}", turn + 1, request.error().message));
    last_ms = request->timestamp_ms;
    request->session = static_cast<uint32_t>(session);
    request->turn = turn++;
    trace.requests.push_back(std::move(*request));
  }
  return {};
}

}  // namespace

Result<Trace> read_agent_trace(const std::string& path, uint64_t max_requests) {
  const auto files = files_at(path);
  if (!files) return tl::unexpected(files.error());
  Trace trace;
  trace.name = path;
  trace.has_sessions = true;
  for (uint64_t session = 0; session < files->size(); ++session) {
    if (auto read = read_session((*files)[session], session, trace); !read) {
      return tl::unexpected(read.error());
    }
  }
  std::ranges::stable_sort(trace.requests, {}, &TraceRequest::timestamp_ms);
  if (max_requests != 0 && trace.requests.size() > max_requests) {
    trace.requests.resize(max_requests);
  }
  if (trace.pages() > 0) return trace;
  return fail(Code::kInvalid, fmt::format("{}: no request of the trace has a page: give a session "
                                          "of an agent, or a folder of them",
                                          path));
}

}  // namespace farpage
