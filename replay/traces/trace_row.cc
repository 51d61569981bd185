#include "replay/traces/trace_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "replay/traces/trace_json.h"

namespace farpage {
namespace {

using simdjson::dom::element;

enum class Field : uint8_t {
  kTimestamp,
  kDelay,
  kInputLength,
  kOutputLength,
  kHashIds,
  kSession,
  kChat,
  kParentChat,
  kTurn,
  kSessionRequests,
  kWaitFor,
  kDependencies,
  kSchema,
};
struct FieldName {
  std::string_view name;
  Field field;
};
// Some have two names.
constexpr std::array kFields = {
    FieldName{"timestamp", Field::kTimestamp},
    FieldName{"created_time", Field::kTimestamp},
    FieldName{"delay", Field::kDelay},
    FieldName{"delay_ms", Field::kDelay},
    FieldName{"input_length", Field::kInputLength},
    FieldName{"input_tokens", Field::kInputLength},
    FieldName{"output_length", Field::kOutputLength},
    FieldName{"output_tokens", Field::kOutputLength},
    FieldName{"hash_ids", Field::kHashIds},
    FieldName{"session_id", Field::kSession},
    FieldName{"chat_id", Field::kChat},
    FieldName{"parent_chat_id", Field::kParentChat},
    FieldName{"turn", Field::kTurn},
    FieldName{"requests", Field::kSessionRequests},
    FieldName{"wait_for", Field::kWaitFor},
    FieldName{"dependencies", Field::kDependencies},
    FieldName{"schema", Field::kSchema},
};
constexpr size_t kFieldCount = static_cast<size_t>(Field::kSchema) + 1;

constexpr const char* kNeedsIds =
    "hash_ids is missing, which tells which pages come back; without any, --format azure replays "
    "arrivals and lengths (as CSV), and \"generate\" makes a trace";
constexpr const char* kIsSession =
    "this is a session of an agent's, and no request: add --format agent";
constexpr const char* kIsGraph =
    "requests that wait for others (wait_for, dependencies, Dynamo's agentic form) have no order "
    "of "
    "their own: replay a trace with timestamps, or sessions with --format agent";

// The fields of a line, by Field; one that is null is as one that is not there.
using Fields = std::array<std::optional<element>, kFieldCount>;

Result<Fields> fields_of(simdjson::dom::object object) {
  Fields fields;
  for (const auto& [key, value] : object) {
    const auto* known = std::ranges::find(kFields, key, &FieldName::name);
    if (known == kFields.end() || value.is_null()) continue;
    auto& field = fields[static_cast<size_t>(known->field)];
    if (field) return fail(Code::kInvalid, fmt::format("{} stands there twice", key));
    field = value;
  }
  return fields;
}

bool has_items(const std::optional<element>& field) {
  return field && (!field->is_array() || field->get_array().size() > 0);
}

class RowParser {
 public:
  explicit RowParser(const Fields& fields) : fields_(fields) {}

  Result<TraceRow> parse() {
    if (get(Field::kSessionRequests) && !get(Field::kHashIds)) return of_another_form(kIsSession);
    if (has_items(get(Field::kWaitFor)) || has_items(get(Field::kDependencies)) ||
        (get(Field::kSchema) && !get(Field::kHashIds))) {
      return of_another_form(kIsGraph);
    }
    // Where requests are chats, times are in seconds.
    const bool in_seconds = get(Field::kChat).has_value();
    row_.place.timestamp_ms = time(Field::kTimestamp, "timestamp", in_seconds);
    row_.place.delay_ms = time(Field::kDelay, "delay", in_seconds);
    row_.request.input_length = tokens(Field::kInputLength, "input_length");
    row_.request.output_length = tokens(Field::kOutputLength, "output_length");
    row_.place.session = id(Field::kSession, "session_id");
    row_.place.chat = id(Field::kChat, "chat_id");
    row_.place.parent_chat = id(Field::kParentChat, "parent_chat_id");
    if (row_.place.session || row_.place.chat) row_.place.turn = turn();
    if (error_) return tl::unexpected(*error_);
    if (!get(Field::kHashIds)) return fail(Code::kInvalid, kNeedsIds);
    auto ids = read_hash_ids(*get(Field::kHashIds));
    if (!ids) return tl::unexpected(ids.error());
    row_.request.hash_ids = std::move(*ids);
    return std::move(row_);
  }

 private:
  static tl::unexpected<Error> of_another_form(const char* why) {
    return fail(Code::kNotFound, why);
  }

  const std::optional<element>& get(Field field) const {
    return fields_[static_cast<size_t>(field)];
  }

  template <typename T>
  std::optional<T> keep(const Result<T>& read) {
    if (read) return *read;
    if (!error_) error_ = read.error();
    return std::nullopt;
  }

  std::optional<double> time(Field field, const char* name, bool in_seconds) {
    if (!get(field)) return std::nullopt;
    const auto read = keep(read_time(name, *get(field), in_seconds ? "seconds" : "milliseconds"));
    return in_seconds && read ? *read * 1'000 : read;
  }

  uint64_t tokens(Field field, const char* name) {
    if (!get(field)) return 0;
    return keep(read_number(name, *get(field), INT64_MAX, "tokens")).value_or(0);
  }

  std::optional<uint64_t> id(Field field, const char* name) {
    if (!get(field)) return std::nullopt;
    return keep(read_id(name, *get(field)));
  }

  // They are counted from 1 there.
  std::optional<uint32_t> turn() {
    if (!get(Field::kTurn)) return std::nullopt;
    const auto read = keep(read_number("turn", *get(Field::kTurn), UINT32_MAX));
    if (!read) return std::nullopt;
    return static_cast<uint32_t>(std::max<uint64_t>(*read, 1) - 1);
  }

  const Fields& fields_;
  TraceRow row_;
  std::optional<Error> error_;  // the first
};

}  // namespace

Result<TraceRow> parse_trace_row(simdjson::dom::parser& parser, std::string_view line) {
  simdjson::dom::object object;
  if (const auto error = parser.parse(line.data(), line.size(), false).get_object().get(object)) {
    return fail(Code::kInvalid, fmt::format("this is no JSON object: {}", describe(error)));
  }
  const auto fields = fields_of(object);
  if (!fields) return tl::unexpected(fields.error());
  return RowParser(*fields).parse();
}

}  // namespace farpage
