#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "lab/paging/access_trace.h"
#include "replay/traces/trace.h"
#include "replay/traces/trace_generator.h"

namespace farpage {

inline constexpr const char* kGenerate = "generate";

// Of accesses, and not of requests.
inline constexpr const char* kAccessFormat = "access";
inline constexpr const char* kKvhlFormat = "kvhl";
inline constexpr std::array<const char*, 5> kFormats = {"mooncake", "agent", "azure", kAccessFormat,
                                                        kKvhlFormat};
// Those that a node can be sent.
inline constexpr std::span<const char* const> kRequestFormats = std::span(kFormats).first<3>();

// Which trace is replayed.
struct TraceArguments {
  std::string trace;                // a file, or kGenerate; empty: what is found
  std::string format = "mooncake";  // of kFormats
  uint64_t requests = 0;            // 0: all
  uint64_t seed = TraceGeneratorOptions().seed;
};

struct LoadedTrace {
  Trace trace;
  std::string origin;  // how it was found
};
// Of requests, all in memory.
Result<LoadedTrace> load_trace(const TraceArguments& arguments);
// Of any format; streamed, where the file can be read more than once and is in order.
Result<paging::AccessTrace> load_accesses(const TraceArguments& arguments);

}  // namespace farpage
