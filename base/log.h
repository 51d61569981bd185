#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace farpage {

// Lines on standard error, with time and level. Never called on the data path.
void log_warning(const std::string& message);
// Of what was asked for and is done.
void log_info(const std::string& message);

// None from now on, of this process: for simulations, whose nodes and clients are lost all the
// time.
void silence_warnings();

// Lines that a peer can cause as often as it likes: one each `pause_ns` at most, with how many were
// left out. Not thread-safe.
class WarningLimiter {
 public:
  explicit WarningLimiter(uint64_t pause_ns = kSecond) : pause_ns_(pause_ns) {}

  void warn(const std::string& message) {
    warn([&]() -> const std::string& { return message; });
  }
  // Where it may come often: the message is made for a line that is written, and for no other.
  template <std::invocable Message>
  void warn(const Message& message) {
    if (is_due()) write(message());
  }

 private:
  bool is_due();
  void write(const std::string& message);

  uint64_t pause_ns_;
  uint64_t next_ns_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace farpage
