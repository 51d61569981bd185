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
std::atomic<int> hang_up_event_fd{-1};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void tell(int fd) {
  const int error_number = errno;
  const uint64_t one = 1;
  // It can fail only when the counter is full, and then it is readable.
  [[maybe_unused]] const ssize_t count = ::write(fd, &one, sizeof(one));
  errno = error_number;
}

void note(int) {
  noted.store(true);
  tell(event_fd.load());
}

void note_hang_up(int) {
  tell(hang_up_event_fd.load());
}

void (*handler_of(int number, HangUp hang_up))(int) {
  if (number == SIGPIPE) return SIG_IGN;
  return number == SIGHUP && hang_up == HangUp::kIsNoted ? note_hang_up : note;
}

int make_event() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  FARPAGE_CHECK(fd >= 0);
  return fd;
}

}  // namespace

Interrupts::Interrupts(HangUp hang_up) {
  event_fd.store(make_event());
  hang_up_event_fd.store(make_event());
  struct sigaction action = {};
  for (size_t i = 0; i < kSignals.size(); ++i) {
    action.sa_handler = handler_of(kSignals[i], hang_up);
    ::sigaction(kSignals[i], &action, &before_[i]);
  }
}

Interrupts::~Interrupts() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  ::close(event_fd.exchange(-1));
  ::close(hang_up_event_fd.exchange(-1));
}

bool Interrupts::interrupted() const {
  return noted.load();
}

int Interrupts::fd() const {
  return event_fd.load();
}

int Interrupts::hang_up_fd() const {
  return hang_up_event_fd.load();
}

bool Interrupts::take_hang_up() {
  uint64_t count = 0;
  return ::read(hang_up_fd(), &count, sizeof count) == sizeof count;
}

}  // namespace farpage
