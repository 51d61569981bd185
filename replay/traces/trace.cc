#include "replay/traces/trace.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "replay/traces/line_reader.h"
#include "replay/traces/trace_json.h"

namespace farpage {
namespace {

using simdjson::dom::element;

constexpr std::array<std::string_view, 4> kFields = {"timestamp", "input_length", "output_length",
                                                     "hash_ids"};

Result<void> read_field(size_t index, element from, TraceRequest& request) {
  if (index == 3) {
    Result<std::vector<uint64_t>> ids = read_hash_ids(from, kMaxHashId);
    if (!ids) return tl::unexpected(ids.error());
    request.hash_ids = std::move(*ids);
    return {};
  }
  const Result<uint64_t> number = read_number(kFields[index], from, INT64_MAX);
  if (!number) return tl::unexpected(number.error());
  std::array<uint64_t*, 3> targets = {&request.timestamp_ms, &request.input_length,
                                      &request.output_length};
  *targets[index] = *number;
  return {};
}

// Fields that are not known are passed over.
Result<TraceRequest> parse_request(simdjson::dom::parser& parser, std::string_view line) {
  TraceRequest request;
  simdjson::dom::object object;
  if (const auto error = parser.parse(line.data(), line.size(), false).get_object().get(object)) {
    return fail(Code::kInvalid,
                fmt::format("this is no JSON object: {}", simdjson::error_message(error)));
  }
  std::array<bool, kFields.size()> seen = {};
  for (const auto& [key, value] : object) {
    const size_t index = std::find(kFields.begin(), kFields.end(), key) - kFields.begin();
    if (index == kFields.size()) continue;
    if (seen[index]) return fail(Code::kInvalid, fmt::format("{} stands there twice", key));
    seen[index] = true;
    const Result<void> read = read_field(index, value, request);
    if (!read) return tl::unexpected(read.error());
  }
  for (size_t i = 0; i < kFields.size(); ++i) {
    if (!seen[i]) return fail(Code::kInvalid, fmt::format("{} is missing", kFields[i]));
  }
  return request;
}

class MooncakeRequests final : public RequestStream {
 public:
  explicit MooncakeRequests(LineReader lines) : lines_(std::move(lines)) {}

  Result<std::optional<TraceRequest>> next() override {
    while (true) {
      const auto line = lines_.next();
      if (!line) return tl::unexpected(line.error());
      if (!*line) return std::nullopt;
      if ((*line)->find_first_not_of(" \t\r") == std::string_view::npos) continue;
      Result<TraceRequest> request = parse_request(parser_, **line);
      if (!request) return lines_.refuse(request.error().message);
      if (request->timestamp_ms < last_ms_) {
        return lines_.refuse(
            fmt::format("timestamp {} comes after {}; requests stand in the order of time",
                        request->timestamp_ms, last_ms_));
      }
      last_ms_ = request->timestamp_ms;
      return std::move(*request);
    }
  }

 private:
  LineReader lines_;
  simdjson::dom::parser parser_;
  uint64_t last_ms_ = 0;
};

}  // namespace

uint64_t Trace::pages() const {
  uint64_t sum = 0;
  for (const TraceRequest& request : requests) sum += request.hash_ids.size();
  return sum;
}

uint64_t Trace::longest_request() const {
  uint64_t most = 0;
  for (const TraceRequest& request : requests)
    most = std::max<uint64_t>(most, request.hash_ids.size());
  return most;
}

Result<Trace> read_trace(OpenRequests open, const std::string& path, uint64_t max_requests) {
  const auto stream = open(path);
  if (!stream) return tl::unexpected(stream.error());
  Trace trace;
  trace.name = path;
  while (max_requests == 0 || trace.requests.size() < max_requests) {
    auto request = (*stream)->next();
    if (!request) return tl::unexpected(request.error());
    if (!*request) break;
    trace.requests.push_back(std::move(**request));
  }
  if (trace.pages() > 0) return trace;
  return fail(Code::kInvalid,
              fmt::format("{}: {}", path,
                          trace.requests.empty() ? "the trace is empty"
                                                 : "no request of the trace has a page"));
}

Result<std::unique_ptr<RequestStream>> open_mooncake_trace(const std::string& path) {
  auto lines = LineReader::open(path);
  if (lines) return std::make_unique<MooncakeRequests>(std::move(*lines));
  return fail(lines.error().code, lines.error().message +
                                      " (scripts/fetch-traces brings Mooncake's, and \"generate\" "
                                      "makes one)");
}

}  // namespace farpage
