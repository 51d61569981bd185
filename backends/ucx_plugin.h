#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "transport/fabric.h"
#include "transport/ucx/ucx_fabric.h"

namespace farpage {

// Where the backend ucx lies: farpage/ beside libfarpage.so, if this code is a part of it, and
// otherwise ../lib/farpage from the program's own folder.
std::string ucx_plugin_path();

// As ucx::make_ucx_fabric, out of that file, which stays loaded. UCX patches mmap and its kin as it
// is loaded.
Result<std::unique_ptr<Fabric>> load_ucx_fabric(const ucx::UcxOptions& options);

}  // namespace farpage
