#include "cli/client/signals.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/check.h"

namespace farpage {
namespace {

constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

std::atomic<bool> noted{false};
std::atomic<int> event_fd{-1};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void note(int) {
  const int error_number = errno;
  noted.store(true);
  const uint64_t one = 1;
  // It can fail only when the counter is full, and then it is readable.
  [[maybe_unused]] const ssize_t count = ::write(event_fd.load(), &one, sizeof(one));
  errno = error_number;
}

}  // namespace

Interrupts::Interrupts() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  FARPAGE_CHECK(fd >= 0);
  event_fd.store(fd);
  struct sigaction action = {};
  for (size_t i = 0; i < kSignals.size(); ++i) {
    action.sa_handler = kSignals[i] == SIGPIPE ? SIG_IGN : note;
    ::sigaction(kSignals[i], &action, &before_[i]);
  }
}

Interrupts::~Interrupts() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  ::close(event_fd.exchange(-1));
}

bool Interrupts::interrupted() const {
  return noted.load();
}

int Interrupts::fd() const {
  return event_fd.load();
}

}  // namespace farpage
