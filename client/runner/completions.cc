#include "client/runner/completions.h"

#include <sys/eventfd.h>

#include <cerrno>

#include "base/check.h"

namespace farpage {

Result<std::unique_ptr<Completions>> Completions::make() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return fail_errno(errno, "cannot make a descriptor for completions");
  return std::unique_ptr<Completions>(new Completions(std::move(fd)));
}

void Completions::add(uint64_t tag) {
  FARPAGE_CHECK(tags_.push(tag));
  if (!is_readable_.exchange(true)) ::eventfd_write(fd_.get(), 1);
}

// The descriptor is made unreadable before the look at the queue: a tag that comes after the look
// makes it readable again. It may be readable for a tag that was taken before, too.
size_t Completions::take(std::span<uint64_t> tags) {
  eventfd_t count = 0;
  ::eventfd_read(fd_.get(), &count);
  is_readable_.store(false);
  size_t taken = 0;
  while (taken < tags.size() && tags_.pop(tags[taken])) ++taken;
  if (!tags_.empty() && !is_readable_.exchange(true)) ::eventfd_write(fd_.get(), 1);
  return taken;
}

}  // namespace farpage
