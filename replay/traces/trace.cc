#include "replay/traces/trace.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "replay/text/line_reader.h"
#include "replay/traces/row_order.h"
#include "replay/traces/trace_json.h"
#include "replay/traces/trace_row.h"

namespace farpage {
namespace {

// Whether so many tokens can be in so many blocks of Mooncake's size, the last of which may be
// counted only where it is full.
bool fits_blocks(uint64_t tokens, uint64_t blocks) {
  return blocks == tokens / kTokensPerBlock ||
         blocks == (tokens + kTokensPerBlock - 1) / kTokensPerBlock;
}

class MooncakeRequests final : public RequestStream {
 public:
  explicit MooncakeRequests(LineReader lines) : lines_(std::move(lines)) {}

  Result<std::optional<TraceRequest>> next() override {
    while (true) {
      if (auto request = order_.take()) return request;
      if (has_ended_) return std::nullopt;
      const auto line = lines_.next();
      if (!line) return tl::unexpected(line.error());
      if (!*line) {
        has_ended_ = true;
        order_.end();
        continue;
      }
      if ((*line)->find_first_not_of(" \t\r") == std::string_view::npos) continue;
      Result<TraceRow> row = parse_trace_row(parser_, **line);
      if (!row && row.error().code == Code::kNotFound) {
        return fail(Code::kNotFound,
                    fmt::format("{}:{}: {}", lines_.path(), lines_.number(), row.error().message));
      }
      if (!row) return lines_.refuse(row.error().message);
      const TraceRequest& request = row->request;
      if (request.input_length > 0 && !fits_blocks(request.input_length, request.hash_ids.size())) {
        block_tokens_.reset();
      }
      if (auto added = order_.add(std::move(row->request), row->place); !added) {
        return lines_.refuse(added.error().message);
      }
    }
  }

  bool has_sessions() const override { return order_.has_sessions(); }
  std::optional<uint64_t> block_tokens() const override { return block_tokens_; }

 private:
  LineReader lines_;
  simdjson::dom::parser parser_;
  RowOrder order_;
  bool has_ended_ = false;
  std::optional<uint64_t> block_tokens_ = kTokensPerBlock;
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

Result<Trace> read_trace(const OpenRequests& open, const std::string& path, uint64_t max_requests) {
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
  trace.has_sessions = (*stream)->has_sessions();
  trace.block_tokens = (*stream)->block_tokens();
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
