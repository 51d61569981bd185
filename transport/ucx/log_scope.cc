#include "transport/ucx/log_scope.h"

#include <ucs/debug/log_def.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace farpage::ucx {
namespace {

thread_local int depth = 0;
thread_local std::array<char, 256> error_text = {};

ucs_log_func_rc_t keep_errors(const char*, unsigned, const char*, ucs_log_level_t level,
                              const ucs_log_component_config_t*, const char* message,
                              va_list arguments) {
  // More than warnings come only if UCX_LOG_LEVEL asks for them; a fatal message ends the process.
  if (depth == 0 || level > UCS_LOG_LEVEL_WARN || level == UCS_LOG_LEVEL_FATAL) {
    return UCS_LOG_FUNC_RC_CONTINUE;
  }
  if (level == UCS_LOG_LEVEL_ERROR) {
    std::vsnprintf(error_text.data(), error_text.size(), message, arguments);
  }
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

LogScope::LogScope() {
  static std::once_flag pushed;
  std::call_once(pushed, [] { ucs_log_push_handler(keep_errors); });
  if (depth++ == 0) error_text[0] = '\0';
}

LogScope::~LogScope() {
  --depth;
}

const char* LogScope::last_error() {
  return error_text.data();
}

}  // namespace farpage::ucx
