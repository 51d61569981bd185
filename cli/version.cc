#include "cli/version.h"

namespace farpage {

const char* version() {
  return FARPAGE_VERSION;
}

}  // namespace farpage
