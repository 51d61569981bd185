#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace farpage {

// Tokens of the prompt in a block of Mooncake's traces, and of generated ones.
inline constexpr uint64_t kTokensPerBlock = 512;

struct TraceRequest {
  double timestamp_ms = 0;
  uint64_t input_length = 0;       // tokens; 0 where the trace does not tell
  uint64_t output_length = 0;      // likewise
  std::vector<uint64_t> hash_ids;  // one a block of the prompt; equal ids are equal prefixes
  uint32_t session = 0;            // where the trace tells of them
  uint32_t turn = 0;               // in its session, from 0
};

struct Trace {
  std::string name;                                        // the file, or what made it
  bool synthetic = false;                                  // made here, not recorded
  std::optional<uint64_t> block_tokens = kTokensPerBlock;  // where it is known
  bool has_sessions = false;
  std::vector<TraceRequest> requests;

  uint64_t pages() const;
  uint64_t longest_request() const;  // in pages
};

inline constexpr uint64_t kMaxRequestPages = 1'000'000;

// The requests of a file, one after another, in memory for one. On one thread. Errors name the file
// and the line.
class RequestStream {
 public:
  virtual ~RequestStream() = default;

  virtual Result<std::optional<TraceRequest>> next() = 0;  // nothing at the end

  // Of what has been read so far.
  virtual bool has_sessions() const { return false; }
  virtual std::optional<uint64_t> block_tokens() const { return kTokensPerBlock; }
};
using OpenRequests = std::function<Result<std::unique_ptr<RequestStream>>(const std::string& path)>;

// All of them, but no more than `max_requests`, if that is not 0. An error where none has a page.
Result<Trace> read_trace(const OpenRequests& open, const std::string& path, uint64_t max_requests);

// Mooncake's traces, and others of their form (docs/formats/request-traces.md): one JSON object a
// line, in the order of its timestamps.
Result<std::unique_ptr<RequestStream>> open_mooncake_trace(const std::string& path);

}  // namespace farpage
