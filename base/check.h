#pragma once

namespace farpage {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace farpage

// For programmers' mistakes alone, in release builds too. Nothing that comes from a peer, a file or
// a user may reach one.
#define FARPAGE_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::farpage::check_failed(#condition, __FILE__, __LINE__))
