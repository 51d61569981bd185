#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tier/fetch/lane.h"

namespace farpage {

// How pages that are fetched ahead come, and the places that they land in: read one by one
// (AheadReads), or pushed by the node, many at one request (AheadPushes). On one thread.
class PrefetchTransport {
 public:
  struct Ended {
    uint32_t place = 0;
    PageVerdict verdict;
  };

  virtual ~PrefetchTransport() = default;

  virtual size_t places() const = 0;
  virtual size_t taken() const = 0;

  // A page of so many bytes, into a place that is the caller's until give_back(), which is no
  // sooner than next() has told of it. Nothing: no place is free.
  virtual std::optional<uint32_t> begin(const PageKey& key, uint64_t bytes,
                                        uint64_t deadline_ns) = 0;
  // Sends what begin() has gathered, where that did not send it at once.
  virtual void send() = 0;
  // Does what can be done without waiting, a turn of it.
  virtual void progress() = 0;
  // Once for each time: what has landed keeps memory that is no more landed in.
  virtual bool has_moved_on() { return false; }
  // One that has its verdict, and whose place no operation writes any more; nothing: none has.
  virtual std::optional<Ended> next() = 0;
  virtual void give_back(uint32_t place) = 0;

  // The lane that all of them come over, for who waits for more than that; null: wait() tells.
  virtual Lane* lane() { return nullptr; }
  // Lets time pass until something may have come, or until then.
  virtual void wait(uint64_t until_ns) = 0;
  virtual LaneStats stats() const = 0;
};

}  // namespace farpage
