#pragma once

#include <cstdint>

#include "integrity/page_header.h"
#include "integrity/page_key.h"
#include "transport/memory.h"

namespace farpage {

// One page of a fetch.
struct PageRequest {
  PageKey key;
  Version min_version = 0;  // nothing older is acceptable; 0: whatever was put last
  // Where the payload must land, in memory registered with the tier; as long as the page. An empty
  // one asks only whether the page is there.
  Slice destination;
};

enum class Verdict : uint8_t {
  kPending,
  kReady,      // the destination holds, whole, the bytes that some put of the key committed
  kRecompute,  // it holds nothing that can be used; the reason says why
};

enum class Reason : uint8_t {
  kNone,
  kMiss,         // no such page (or none of the destination's length)
  kStale,        // only versions below min_version, or it changed each time that it was looked at
  kCorrupt,      // what landed was wrong twice, in a slot that the index still names
  kStalled,      // not there by the deadline
  kUnreachable,  // no node to ask, or its view lease has ended
};
inline constexpr int kReasons = 6;

const char* reason_name(Reason reason);

// Who may write the destination (I4).
enum class Place : uint8_t {
  kReleased,  // nobody: it is the caller's again
  kHeld,      // an operation that has not ended yet; Fetch::released() tells when it has
};

struct PageVerdict {
  Verdict verdict = Verdict::kPending;
  Reason reason = Reason::kNone;
  Place place = Place::kReleased;
  uint8_t looks = 0;    // how many times the page was looked at
  Version version = 0;  // with kReady
};

}  // namespace farpage
