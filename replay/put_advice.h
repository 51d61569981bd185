#pragma once

#include <string_view>

#include "base/status.h"

namespace farpage {

// Advice about a put that was refused with that code; goes behind its name.
inline std::string_view put_advice(Code code) {
  if (code != Code::kExhausted) return "";
  return ": no slot was free in time. Pages make room for others with node.evict alone; more room "
         "is node.pool_bytes, or the tenant's quota_bytes";
}

}  // namespace farpage
