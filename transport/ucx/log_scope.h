#pragma once

namespace farpage::ucx {

// While one lives, what UCX logs on this thread is kept from standard output: warnings are dropped,
// the last error is remembered. Other users of UCX in this process keep their log.
class LogScope {
 public:
  LogScope();
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

  // The last error on this thread since its outermost scope began; empty if there was none.
  static const char* last_error();
};

}  // namespace farpage::ucx
