#pragma once

#include <string>

#include "base/status.h"

namespace farpage {

// The folder of this user's named nodes, made if it is not there: farpage below $XDG_RUNTIME_DIR,
// or /tmp/farpage-UID. kDenied: it stands there, and is not this user's alone.
Result<std::string> make_user_folder();

}  // namespace farpage
