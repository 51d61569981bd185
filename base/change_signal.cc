#include "base/change_signal.h"

#include <sys/eventfd.h>

namespace farpage {

std::shared_ptr<ChangeSignal> ChangeSignal::make() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return fd.valid() ? std::make_shared<ChangeSignal>(std::move(fd)) : nullptr;
}

void ChangeSignal::clear() {
  eventfd_t count = 0;
  ::eventfd_read(fd_.get(), &count);
}

void ChangeSignal::tell() {
  if (armed_.exchange(false)) ::eventfd_write(fd_.get(), 1);
}

}  // namespace farpage
