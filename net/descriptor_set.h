#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "base/unique_fd.h"

namespace farpage {

// Several descriptors that others wait on as one: fd() is readable as long as one of them is ready.
// The descriptors are lent. One thread at a time; nothing here allocates.
class DescriptorSet {
 public:
  static Result<DescriptorSet> make();
  DescriptorSet() = default;  // as one that was moved from

  int fd() const { return set_.get(); }

  // `events`: POLLIN, POLLOUT or both.
  Result<void> add(int fd, short events);
  void change(int fd, short events);  // of one that was added
  void remove(int fd);                // nothing happens if it was not added

  // Fills `ready` with those that are ready now, and returns how many. Never blocks.
  size_t ready(std::span<int> ready) const;

 private:
  UniqueFd set_;
};

}  // namespace farpage
