#pragma once

#include "prefetch/parameters.h"

namespace farpage::prefetch {

// One file each, of the same name.
AllocationInfo even();
AllocationInfo reasonalloc();

}  // namespace farpage::prefetch
