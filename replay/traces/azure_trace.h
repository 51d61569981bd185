#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "replay/traces/trace.h"

namespace farpage {

// Azure's traces of LLM inference: CSV with the header TIMESTAMP,ContextTokens,GeneratedTokens, a
// request a line, in the order of their times, which are UTC ("2023-11-16 18:15:46.6805900").
// They tell when requests came and how long they were, and not what stood in them: every block of
// every prompt is one of its own, and none is ever wanted again.
Result<std::unique_ptr<RequestStream>> open_azure_trace(const std::string& path);

}  // namespace farpage
