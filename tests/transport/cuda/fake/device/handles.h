#pragma once

#include <cstdint>

#include "tests/transport/cuda/fake/device/memory.h"
#include "tests/transport/cuda/fake/fake_control.h"

namespace farpage::cuda {

// A descriptor of a part of the memory, which the caller closes. It is a dma-buf where the kernel
// has udmabuf, and the memfd itself elsewhere. -1: the process has no descriptor left.
int make_handle(const Physical& physical, uint64_t offset, uint64_t bytes);
bool describe_handle(int descriptor, FakeHandle* handle);

}  // namespace farpage::cuda
