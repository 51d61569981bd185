#include "bench/azure_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "bench/line_reader.h"

namespace farpage {
namespace {

constexpr std::string_view kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr std::string_view kDigits = "0123456789";

bool take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

// The digits at the front, which are taken off.
std::string_view take_digits(std::string_view& text) {
  const std::string_view digits =
      text.substr(0, std::min(text.find_first_not_of(kDigits), text.size()));
  text.remove_prefix(digits.size());
  return digits;
}

std::optional<uint64_t> number_of(std::string_view digits) {
  uint64_t number = 0;
  const auto [after, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc()) return std::nullopt;
  return number;
}

// Since 1970; what stands behind the thousandths is dropped.
std::optional<uint64_t> take_time_ms(std::string_view& text) {
  constexpr std::array<std::string_view, 6> kBefore = {"", "-", "-", " ", ":", ":"};
  std::array<uint64_t, kBefore.size()> parts = {};  // from the year to the second
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!take(text, kBefore[i])) return std::nullopt;
    const std::string_view digits = take_digits(text);
    if (digits.size() != (i == 0 ? 4 : 2)) return std::nullopt;
    parts[i] = *number_of(digits);
  }
  std::array<char, 3> thousandths = {'0', '0', '0'};
  if (take(text, ".")) {
    const std::string_view digits = take_digits(text);
    if (digits.empty()) return std::nullopt;
    std::ranges::copy(digits.substr(0, thousandths.size()), thousandths.begin());
  }
  take(text, "+00:00");
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(parts[0])),
                                         std::chrono::month(static_cast<unsigned>(parts[1])),
                                         std::chrono::day(static_cast<unsigned>(parts[2])));
  if (!date.ok() || parts[0] < 1970 || parts[3] > 23 || parts[4] > 59 || parts[5] > 60) {
    return std::nullopt;
  }
  const auto days = static_cast<uint64_t>(std::chrono::sys_days(date).time_since_epoch().count());
  const uint64_t seconds = ((days * 24 + parts[3]) * 60 + parts[4]) * 60 + parts[5];
  return seconds * 1'000 + *number_of(std::string_view(thousandths.data(), thousandths.size()));
}

Result<TraceRequest> parse_request(std::string_view line) {
  TraceRequest request;
  const auto time_ms = take_time_ms(line);
  if (!time_ms) {
    return fail(Code::kInvalid, "the time is no \"2023-11-16 18:15:46.6805900\", in UTC");
  }
  request.timestamp_ms = *time_ms;
  for (uint64_t* tokens : {&request.input_length, &request.output_length}) {
    const bool has_comma = take(line, ",");
    const auto number = number_of(take_digits(line));
    if (!has_comma || !number) {
      return fail(Code::kInvalid,
                  "behind the time stand two numbers of tokens, with commas before");
    }
    *tokens = *number;
  }
  if (!line.empty()) return fail(Code::kInvalid, "something stands behind the numbers of tokens");
  if (request.input_length > kMaxRequestPages * kTokensPerBlock) {
    return fail(Code::kInvalid,
                fmt::format("a prompt of more than {} tokens", kMaxRequestPages * kTokensPerBlock));
  }
  return request;
}

}  // namespace

Result<Trace> read_azure_trace(const std::string& path, uint64_t max_requests) {
  auto opened = LineReader::open(path);
  if (!opened) return tl::unexpected(opened.error());
  LineReader& lines = *opened;
  const auto at_line = [&](const std::string& message) {
    return fail(Code::kInvalid,
                fmt::format("{}:{}: {}: mend or remove the line", path, lines.number(), message));
  };

  Trace trace;
  trace.name = path;
  uint64_t blocks = 0;
  uint64_t begin_ms = 0;
  uint64_t last_ms = 0;
  bool has_header = false;
  while (max_requests == 0 || trace.requests.size() < max_requests) {
    const auto next = lines.next();
    if (!next) return tl::unexpected(next.error());
    if (!*next) break;
    std::string_view line = **next;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!has_header) {
      if (line != kHeader) {
        return fail(Code::kInvalid,
                    fmt::format("{}:1: the first line of a trace of Azure's is {}", path, kHeader));
      }
      has_header = true;
      continue;
    }
    if (line.empty()) continue;
    Result<TraceRequest> request = parse_request(line);
    if (!request) return at_line(request.error().message);
    if (request->timestamp_ms < last_ms) {
      return at_line("its time is before that of the line above; requests stand in their order");
    }
    last_ms = request->timestamp_ms;
    if (trace.requests.empty()) begin_ms = last_ms;
    request->timestamp_ms -= begin_ms;
    const uint64_t pages = (request->input_length + kTokensPerBlock - 1) / kTokensPerBlock;
    for (uint64_t i = 0; i < pages; ++i) request->hash_ids.push_back(blocks++);
    trace.requests.push_back(std::move(*request));
  }
  if (blocks == 0) return fail(Code::kInvalid, fmt::format("{}: no request has a prompt", path));
  return trace;
}

}  // namespace farpage
