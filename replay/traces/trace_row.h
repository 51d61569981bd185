#pragma once

#include <simdjson.h>

#include <string_view>

#include "base/status.h"
#include "replay/traces/row_order.h"
#include "replay/traces/trace.h"

namespace farpage {

struct TraceRow {
  TraceRequest request;
  RowPlace place;
};

// A request of Mooncake's form, and what Dynamo, AIPerf and Alibaba's Bailian add to it
// (docs/formats/request-traces.md). All but its hash_ids may be missing; fields that are not known
// are passed over. The line is padded for simdjson. Errors say what is wrong, and not where:
// kNotFound, where the line is of a trace of another form.
Result<TraceRow> parse_trace_row(simdjson::dom::parser& parser, std::string_view line);

}  // namespace farpage
