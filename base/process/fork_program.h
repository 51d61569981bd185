#pragma once

#include <sys/types.h>

namespace farpage {

// fork(2) for a child that becomes another program. A signal that reaches the child before it is
// that program does what it does by default, as it would to the program: the handlers of this
// process would note it here, and the program would never hear of it. The child has the caller's
// signal mask, and ignores what the caller ignores, as after execve(2). Any thread.
//
// The child may call only what a signal handler may. -1: errno says why.
pid_t fork_program();

}  // namespace farpage
