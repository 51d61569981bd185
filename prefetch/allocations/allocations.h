#pragma once

#include "prefetch/registry.h"

namespace farpage::prefetch {

// One file each, of the same name.
AllocationInfo even();
AllocationInfo reasonalloc();

}  // namespace farpage::prefetch
