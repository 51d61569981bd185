#pragma once

#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "base/unique_fd.h"

namespace farpage {

// Tags of operations that are done, for a thread with an event loop of its own: its descriptor is
// readable while tags wait. Any threads add and take.
class Completions {
 public:
  // kExhausted: the process has no descriptors left.
  static Result<std::unique_ptr<Completions>> make();

  int descriptor() const { return fd_.get(); }
  // Takes as many tags as are there and have room; returns how many. Does not block.
  size_t take(std::span<uint64_t> tags);

  // Takes memory when more tags wait than ever before.
  void add(uint64_t tag);

 private:
  static constexpr size_t kFirstTags = 1'024;
  explicit Completions(UniqueFd fd) : fd_(std::move(fd)), tags_(kFirstTags) {}

  const UniqueFd fd_;
  boost::lockfree::queue<uint64_t> tags_;
  std::atomic<bool> is_readable_{false};
};

}  // namespace farpage
