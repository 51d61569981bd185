#pragma once

#include <memory>

#include "base/status.h"
#include "transport/fabric.h"
#include "transport/ucx/ucx_fabric.h"

namespace farpage::ucx {

// This backend is in a shared module of its own, libfarpage_ucx.so, as UCX acts in whatever process
// loads it. The module has one entry, of this name; all else of farpage it takes from the program
// that loads it. The number is raised when what the two share changes: the entry's type, the
// classes of transport/fabric.h and their like, UcxOptions.
inline constexpr const char* kPluginEntry = "farpage_backend_ucx_v2";
// As make_ucx_fabric.
using PluginEntry = void(const UcxOptions& options, Result<std::unique_ptr<Fabric>>& made);

}  // namespace farpage::ucx
