#pragma once

#include "tests/transport/cuda/fake/fake_control.h"

namespace farpage::cuda {

// For programs that load the fake without a test in the same process.

// From FARPAGE_FAKE_SEED, FARPAGE_FAKE_DELAY_US, FARPAGE_FAKE_SPOIL_EVERY and
// FARPAGE_FAKE_REFUSE_EVERY, where they are set.
FakeSettings settings_from_environment();

}  // namespace farpage::cuda
