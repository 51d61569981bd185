#pragma once

#include <vector>

#include "doctor/finding.h"
#include "doctor/host_files.h"
#include "doctor/wanted.h"

namespace farpage::doctor {

// Every check, on this host; `files` may be those of a made-up one.
std::vector<Finding> examine(const Wanted& wanted, const HostFiles& files);

}  // namespace farpage::doctor
