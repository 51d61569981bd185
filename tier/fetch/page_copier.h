#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory/mapping.h"
#include "integrity/checker.h"

namespace farpage {

// A node's pool that is mapped here, and stays mapped as long as this lives.
struct CopySource {
  explicit CopySource(std::shared_ptr<const Mapping> mapping) : memory(std::move(mapping)) {}

  const std::shared_ptr<const Mapping> memory;
  std::atomic<bool> is_ready{false};  // pages may be copied from it; once it is true it stays so
};

// A payload in a node's pool, and where it goes.
struct PageCopy {
  PayloadCheck payload;  // where it lies
  uint64_t to = 0;       // the device's address
  bool verify = true;    // whether its CRC is looked at
  uint64_t deadline_ns = 0;
  std::shared_ptr<const CopySource> source;
};

// Checks payloads in nodes' pools, and copies those that are good to a device's memory, straight
// from there. It says nothing of what has become of the pool meanwhile: its caller looks after it.
// One thread at a time; begin and poll allocate nothing and never block.
class PageCopier {
 public:
  // No copy is under way any more.
  virtual ~PageCopier() = default;

  // A pool to copy from, once it is ready, which may last; perhaps it never is. What this returns
  // must go before the copier.
  virtual std::shared_ptr<CopySource> open(std::shared_ptr<const Mapping> pool) = 0;

  // From a source that is ready, which stays until the end. Each has one end, which comes by
  // itself: kGood once the copy has ended; kBad for another CRC, there or as it was copied; kFailed
  // where its deadline had come, or the device refuses it, and some of it may be copied. After its
  // end nothing writes at the destination.
  virtual void begin(const PageCopy& copy) = 0;

  // As Checker::poll. It takes what was begun: checks, and starts copies.
  virtual size_t poll(std::span<CheckEnd> ends) = 0;
};

}  // namespace farpage
