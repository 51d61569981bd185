#pragma once

#include "tests/transport/cuda/fake/later_types.h"
#include "tests/transport/cuda/fake/results.h"

// What the fake exports: a definition that differs from these declarations does not compile.
namespace farpage::cuda {
#define FARPAGE_CUDA_ENTRY(member, symbol, ...) \
  extern "C" __attribute__((visibility("default"))) int symbol(__VA_ARGS__);
#include "tests/transport/cuda/fake/later_entries.inc"
#include "transport/cuda/driver_entries.inc"
#undef FARPAGE_CUDA_ENTRY
}  // namespace farpage::cuda
