#pragma once

#include <cstdint>

#include "integrity/page_header.h"
#include "integrity/page_key.h"
#include "integrity/recovery.h"
#include "transport/memory.h"

namespace farpage {

// One page of a fetch; a line of the cache.
struct alignas(64) PageRequest {
  PageKey key;
  Version min_version = 0;  // nothing older is acceptable; 0: whatever was put last
  // Where the payload must land, in memory registered with the tier; as long as the page. An empty
  // one asks only whether the page is there. In memory that the backend cannot land in, or whose
  // payloads no checker can read, the page is recompute(unreachable): land in host memory, and
  // copy.
  Slice destination;
  // Where the payload may be copied to instead, straight from a node's memory: by the lane's
  // PageCopier, if it has one. 0: nowhere.
  uint64_t straight_to = 0;
};

enum class Verdict : uint8_t {
  kPending,
  kReady,      // the destination holds, whole, the bytes that some put of the key committed
  kRecompute,  // it holds nothing that can be used; the reason says why
};

// The party that may still write the destination (I4).
enum class Place : uint8_t {
  kReleased,  // none: it is the caller's again
  kHeld,      // an operation that has not ended yet; Fetch::released() tells when it has
};

struct PageVerdict {
  Verdict verdict = Verdict::kPending;
  Reason reason = Reason::kNone;
  Place place = Place::kReleased;
  uint8_t looks = 0;     // how many times the page was looked at
  uint8_t attempts = 0;  // how many were begun: at other replicas, hedges, and those in vain
  uint8_t replicas = 0;  // how many nodes were asked
  // With kReady: the payload's CRC-32C, as its header says; 0 for a page that was fetched ahead.
  uint32_t payload_crc = 0;
  Version version = 0;   // with kReady
  uint64_t took_ns = 0;  // from the start of the fetch
  // With kReady: where the payload lies. The destination; or where a hedge has landed it, a place
  // of the lane's own, lent until the Fetch goes; or straight_to. Null for a request without a
  // destination. With kHeld: straight_to, if that is what is held.
  const std::byte* landed = nullptr;
};

struct FetchOptions {
  // Pages that take longer than most are read from another replica as well, and may be ready in a
  // place of the lane's (PageVerdict::landed). The destination is held then until the first read of
  // it has ended: keep the Fetch until it is released, for its destructor waits.
  bool hedge = false;
  // How long the engine takes to recompute a page: its tokens, by the engine's rate. One that would
  // come later than that is recompute(slower) at once. 0: unknown.
  uint64_t recompute_ns = 0;
};

}  // namespace farpage
