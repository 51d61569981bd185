#pragma once

#include <vector>

#include "doctor/finding/finding.h"
#include "doctor/finding/wanted.h"
#include "doctor/host/host_files.h"

namespace farpage::doctor {

// Every check, on this host; `files` may be those of a made-up one.
std::vector<Finding> examine(const Wanted& wanted, const HostFiles& files);

}  // namespace farpage::doctor
