#pragma once

#include <cstddef>

namespace farpage::cuda {

// Whether this process can read all of it, and write it if `to_write`, by its page tables.
bool is_mapped(const void* memory, size_t bytes, bool to_write);

}  // namespace farpage::cuda
