#include "replay/traces/find_trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace farpage {
namespace {

constexpr const char* kTraceInFolder = "mooncake/conversation_trace.jsonl";

}  // namespace

FoundTrace find_trace() {
  std::string missing;
  if (const char* folder = std::getenv("FARPAGE_TRACES"); folder != nullptr && *folder != '\0') {
    const std::string path = fmt::format("{}/{}", folder, kTraceInFolder);
    if (::access(path.c_str(), R_OK) == 0) return {path, "found by FARPAGE_TRACES"};
    missing = fmt::format("no {} in FARPAGE_TRACES ({}); ", kTraceInFolder, folder);
  }
  const std::string path = fmt::format("traces/{}", kTraceInFolder);
  if (::access(path.c_str(), R_OK) == 0) return {path, missing + "found in traces/"};
  return {"", missing + "no trace in traces/"};
}

}  // namespace farpage
