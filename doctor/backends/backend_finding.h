#pragma once

#include <string>

#include "doctor/finding/finding.h"
#include "doctor/finding/wanted.h"

namespace farpage::doctor {

// The host's equipment for a backend, and the missing parts.
struct HostSide {
  Level level = Level::kOk;
  std::string text = {};
  std::string command = {};
};

// The backend's finding. One that is not in this build is a problem, whatever the host has.
Finding backend_finding(const BackendCheck& backend, const HostSide& host, const Wanted& wanted);

// Examines another backend, one that this build has and that runs anywhere, where the host or the
// build cannot be given what the asked one needs.
std::string command_for_another(const Wanted& wanted);

}  // namespace farpage::doctor
