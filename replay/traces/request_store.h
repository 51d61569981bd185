#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "replay/traces/trace.h"

namespace farpage {

// Requests in memory, each without what it has in common with one before: a conversation repeats at
// every turn what it has said so far.
class RequestStore {
 public:
  // Returns its number. `like`: that of a request that it may begin as.
  size_t add(TraceRequest request, std::optional<size_t> like);

  TraceRequest get(size_t number) const;
  size_t size() const { return kept_.size(); }
  // Their numbers by their times, those of one time as they were added.
  std::vector<uint32_t> by_time() const;

 private:
  struct Kept {
    TraceRequest request;  // with those of its ids alone that follow
    size_t shared = 0;     // so many, which are those of
    size_t before = 0;
  };

  std::vector<uint64_t> ids_of(size_t number) const;

  std::vector<Kept> kept_;
};

// The requests of a trace that must be read to the end before its first request is known.
struct StoredTrace {
  RequestStore requests;
  std::vector<uint32_t> order;
  std::optional<uint64_t> block_tokens;
};

// Of sessions. Any number of them, each on its own thread, may read one trace.
std::unique_ptr<RequestStream> stream_of(std::shared_ptr<const StoredTrace> trace);

}  // namespace farpage
