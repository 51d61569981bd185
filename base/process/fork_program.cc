#include "base/process/fork_program.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace farpage {
namespace {

void drop_handlers() {
  for (int number = 1; number <= SIGRTMAX; ++number) {
    struct sigaction action = {};
    if (::sigaction(number, nullptr, &action) != 0) continue;  // the library's own
    if (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);
  }
}

}  // namespace

pid_t fork_program() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::fork();
  const int error_number = errno;
  if (child == 0) drop_handlers();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error_number;
  return child;
}

}  // namespace farpage
