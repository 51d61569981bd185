#include <array>

#include "doctor/backends/backend_shm.h"
#include "doctor/backends/backend_tcp.h"
#include "doctor/backends/backend_ucx.h"
#include "doctor/backends/backend_verbs.h"
#include "doctor/finding/backend_set.h"

namespace farpage::doctor {
namespace {

constexpr std::array<const BackendCheck*, 4> kChecks = {&kShmCheck, &kTcpCheck, &kVerbsCheck,
                                                        &kUcxCheck};

}  // namespace

// Declared where sets of backends are, which know none of them.
std::span<const BackendCheck* const> every_check() {
  return kChecks;
}

}  // namespace farpage::doctor
