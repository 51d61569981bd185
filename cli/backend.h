#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "transport/fabric.h"

namespace farpage {

inline constexpr const char* kDefaultBackend = "shm";

// A fabric by its backend's name; an unknown name is an error that lists those there are.
Result<std::unique_ptr<Fabric>> make_backend(const std::string& name);

}  // namespace farpage
