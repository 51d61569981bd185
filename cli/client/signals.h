#pragma once

#include <signal.h>

#include <array>

namespace farpage {

// As long as it lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the process, so that
// every way out passes the destructors; and a reader that has gone away is an error of write(), not
// a signal. Made once, by the thread that starts the others.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool interrupted() const;
  // Readable once interrupted.
  int fd() const;

 private:
  std::array<struct sigaction, 4> before_;
};

}  // namespace farpage
