#include <farpage/farpage.h>

#include "base/status.h"
#include "integrity/recovery.h"

const char* farpage_version(void) {
  return FARPAGE_VERSION;
}

// A caller may give any number.

const char* farpage_code_name(farpage_code_t code) {
  if (code == FARPAGE_BUSY) return "busy";
  const bool is_known = code >= FARPAGE_OK && code <= FARPAGE_SYSTEM;
  return is_known ? farpage::code_name(static_cast<farpage::Code>(code)) : "unknown";
}

const char* farpage_reason_name(farpage_reason_t reason) {
  const bool is_known = reason >= FARPAGE_REASON_NONE && reason <= FARPAGE_REASON_SLOWER;
  return is_known ? farpage::reason_name(static_cast<farpage::Reason>(reason)) : "unknown";
}

const char* farpage_verdict_name(farpage_verdict_t verdict) {
  if (verdict == FARPAGE_READY) return "ready";
  return verdict == FARPAGE_RECOMPUTE ? "recompute" : "unknown";
}
