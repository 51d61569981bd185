#include "base/memory/lost_memory.h"

#include <ucontext.h>

#include <csetjmp>
#include <csignal>
#include <functional>

namespace farpage {
namespace {

struct Reading {
  sigjmp_buf leave;
  std::span<const std::byte> memory;
};
// Of this thread, which the signal is for; volatile, as a handler looks at it.
thread_local Reading* volatile reading = nullptr;

struct sigaction former;

bool holds(std::span<const std::byte> memory, const void* address) {
  const std::less<const void*> before;
  return !before(address, memory.data()) && before(address, memory.data() + memory.size());
}

// A handler without SA_SIGINFO is called as one with it: the further arguments are lost on it.
void on_lost_memory(int signal, siginfo_t* info, void* context) {
  Reading* const at = reading;
  if (at != nullptr && holds(at->memory, info->si_addr)) {
    // Of before the signal: sigsetjmp() has not asked for it, and so siglongjmp() leaves it alone.
    ::pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
    siglongjmp(at->leave, 1);
  }
  if ((former.sa_flags & SA_SIGINFO) != 0) return former.sa_sigaction(signal, info, context);
  if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    return former.sa_handler(signal);
  }
  // Once this returns the access is made again, and the kernel ends the process.
  ::signal(signal, SIG_DFL);
}

bool take_over() {
  struct sigaction action = {};
  action.sa_sigaction = on_lost_memory;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  return ::sigaction(SIGBUS, &action, &former) == 0;
}

}  // namespace

bool run_unless_lost(std::span<const std::byte> memory, void (*work)(void*), void* context) {
  static const bool kTaken = take_over();
  Reading mine;
  mine.memory = memory;
  if (!kTaken || sigsetjmp(mine.leave, 0) != 0) {
    reading = nullptr;
    return false;
  }
  reading = &mine;
  work(context);
  reading = nullptr;
  return true;
}

}  // namespace farpage
