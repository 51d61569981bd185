#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"

namespace farpage {

// Tags of submissions that are done, for a thread with an event loop of its own: its descriptor is
// readable while tags wait. Any threads add and take.
class Completions {
 public:
  // kExhausted: the process has no descriptors left.
  static Result<std::unique_ptr<Completions>> make();

  int descriptor() const { return fd_.get(); }
  // Takes as many tags as are there and have room; returns how many. Does not block.
  size_t take(std::span<uint64_t> tags);

  void add(uint64_t tag);

 private:
  explicit Completions(UniqueFd fd) : fd_(std::move(fd)) {}

  const UniqueFd fd_;
  std::mutex mutex_;
  std::deque<uint64_t> tags_;
};

}  // namespace farpage
