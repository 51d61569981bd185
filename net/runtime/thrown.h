#pragma once

#include <system_error>

#include "base/status.h"

namespace farpage {

// As fail_errno(), of what std::thread, and all that starts one, throws in place of an error code.
tl::unexpected<Error> fail_thrown(const std::system_error& thrown);

}  // namespace farpage
