#include "replay/traces/azure_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "replay/text/line_reader.h"
#include "replay/text/whole_number.h"

namespace farpage {
namespace {

constexpr std::string_view kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
// A line of a few bytes is as many pages as it says.
constexpr uint64_t kMaxPromptTokens = 10'000'000;
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
  request.timestamp_ms = static_cast<double>(*time_ms);
  for (uint64_t* tokens : {&request.input_length, &request.output_length}) {
    const bool has_comma = take(line, ",");
    const auto number = take_whole_number(line);
    if (!has_comma || !number) {
      return fail(Code::kInvalid,
                  "behind the time stand two numbers of tokens, whole ones, with commas before");
    }
    *tokens = *number;
  }
  if (!line.empty()) return fail(Code::kInvalid, "something stands behind the numbers of tokens");
  if (request.input_length > kMaxPromptTokens) {
    return fail(Code::kInvalid, fmt::format("a prompt of more than {} tokens", kMaxPromptTokens));
  }
  return request;
}

class AzureRequests final : public RequestStream {
 public:
  explicit AzureRequests(LineReader lines) : lines_(std::move(lines)) {}

  Result<std::optional<TraceRequest>> next() override {
    while (true) {
      const auto next = lines_.next();
      if (!next) return tl::unexpected(next.error());
      if (!*next) return std::nullopt;
      std::string_view line = **next;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (lines_.number() == 1) {
        if (line == kHeader) continue;
        return lines_.refuse(fmt::format("the first line of a trace of Azure's is {}", kHeader));
      }
      if (line.empty()) continue;
      Result<TraceRequest> request = parse_request(line);
      if (!request) return lines_.refuse(request.error().message);
      if (request->timestamp_ms < last_ms_) {
        return lines_.refuse("its time is before that of the line above; requests stand in order");
      }
      last_ms_ = request->timestamp_ms;
      if (!begin_ms_) begin_ms_ = last_ms_;
      request->timestamp_ms -= *begin_ms_;
      const uint64_t pages = (request->input_length + kTokensPerBlock - 1) / kTokensPerBlock;
      request->hash_ids.resize(pages);
      std::iota(request->hash_ids.begin(), request->hash_ids.end(), blocks_);
      blocks_ += pages;
      return std::move(*request);
    }
  }

 private:
  LineReader lines_;
  std::optional<double> begin_ms_;  // of the first request
  double last_ms_ = 0;
  uint64_t blocks_ = 0;
};

}  // namespace

Result<std::unique_ptr<RequestStream>> open_azure_trace(const std::string& path) {
  auto lines = LineReader::open(path);
  if (!lines) return tl::unexpected(lines.error());
  return std::make_unique<AzureRequests>(std::move(*lines));
}

}  // namespace farpage
