#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "replay/traces/trace.h"

namespace farpage {

// The place of a request, as a line of the trace gives it.
struct RowPlace {
  std::optional<double> timestamp_ms;
  std::optional<double> delay_ms;       // behind the one before it in its session
  std::optional<uint64_t> session;      // its id
  std::optional<uint64_t> parent_chat;  // the request that it goes on from, where those have ids
  std::optional<uint64_t> chat;         // its own
  std::optional<uint32_t> turn;         // in its session, from 0
};

inline constexpr uint64_t kMostPagesWaiting = uint64_t{1} << 25;

// Puts a trace's requests in the order of their times, and numbers their sessions. Those that have
// a timestamp come in that order. One that has a delay is that much later than the one before it in
// its session, or else than the last timestamp, and waits here until the timestamps have come so
// far. One that has neither stands where it is.
class RowOrder {
 public:
  Result<void> add(TraceRequest request, const RowPlace& place);
  void end();  // nothing more is added
  std::optional<TraceRequest> take();

  bool has_sessions() const { return has_sessions_; }

 private:
  struct Session {
    uint32_t number = 0;
    uint32_t turns = 0;
    double last_ms = 0;
  };
  struct Waiting {
    uint64_t number = 0;  // in the file
    TraceRequest request;
  };
  struct IsLater {
    bool operator()(const Waiting& one, const Waiting& other) const {
      if (one.request.timestamp_ms != other.request.timestamp_ms) {
        return one.request.timestamp_ms > other.request.timestamp_ms;
      }
      return one.number > other.number;
    }
  };

  // Null: the request is of none.
  Session* session_of(const RowPlace& place);

  double now_ms_ = 0;  // no later request comes with an earlier timestamp
  bool has_ended_ = false;
  bool has_sessions_ = false;
  uint64_t added_ = 0;
  uint64_t waiting_pages_ = 0;
  uint32_t sessions_begun_ = 0;
  std::unordered_map<uint64_t, Session> sessions_;  // by id
  std::unordered_map<uint64_t, uint64_t> by_chat_;  // by the id of a request, that of its session
  std::vector<Waiting> waiting_;                    // a heap by IsLater
};

}  // namespace farpage
