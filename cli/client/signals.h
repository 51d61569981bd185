#pragma once

#include <signal.h>

#include <array>

namespace farpage {

// The meaning of SIGHUP: the end of the terminal, or, to a server, a request to read its files
// again.
enum class HangUp : unsigned char { kInterrupts, kIsNoted };

// As long as it lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the process, so that
// every way out passes the destructors; and a reader that has gone away is an error of write(), not
// a signal. Made once, by the thread that starts the others.
class Interrupts {
 public:
  explicit Interrupts(HangUp hang_up = HangUp::kInterrupts);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool interrupted() const;
  // Readable once interrupted.
  int fd() const;
  // kIsNoted: readable once SIGHUP has come, until it is taken.
  int hang_up_fd() const;
  // Whether it has come since this was asked last.
  bool take_hang_up();

 private:
  std::array<struct sigaction, 4> before_;
};

}  // namespace farpage
