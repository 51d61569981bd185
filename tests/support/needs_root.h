#pragma once

#include <unistd.h>

namespace farpage {

// Why a test that becomes another user, or makes a network, cannot run; null: it can.
inline const char* why_no_root() {
  return ::geteuid() == 0 ? nullptr : "needs root: run the tests as root";
}

}  // namespace farpage
