#include "client/runner/completions.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace farpage {

Result<std::unique_ptr<Completions>> Completions::make() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return fail_errno(errno, "cannot make a descriptor for completions");
  return std::unique_ptr<Completions>(new Completions(std::move(fd)));
}

void Completions::add(uint64_t tag) {
  const std::lock_guard lock(mutex_);
  tags_.push_back(tag);
  if (tags_.size() == 1) ::eventfd_write(fd_.get(), 1);
}

size_t Completions::take(std::span<uint64_t> tags) {
  const std::lock_guard lock(mutex_);
  const size_t count = std::min(tags.size(), tags_.size());
  std::copy_n(tags_.begin(), count, tags.begin());
  tags_.erase(tags_.begin(), tags_.begin() + static_cast<std::ptrdiff_t>(count));
  if (count > 0 && tags_.empty()) {
    eventfd_t written = 0;
    ::eventfd_read(fd_.get(), &written);
  }
  return count;
}

}  // namespace farpage
