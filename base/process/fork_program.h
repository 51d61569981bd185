#pragma once

#include <sys/types.h>

namespace farpage {

// fork(2) for a child that becomes another program. Until execve(2) the child takes each signal's
// default action. With this process's handlers it would note the signal, and the program would
// never hear of it. The child has the caller's signal mask, and ignores what the caller ignores, as
// after execve(2). Any thread.
//
// The child may call only what a signal handler may. -1: errno says why.
pid_t fork_program();

}  // namespace farpage
