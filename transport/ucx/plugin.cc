#include "transport/ucx/plugin.h"

extern "C" [[gnu::visibility("default")]] farpage::ucx::PluginEntry farpage_backend_ucx_v2;

void farpage_backend_ucx_v2(const farpage::ucx::UcxOptions& options,
                            farpage::Result<std::unique_ptr<farpage::Fabric>>& made) {
  made = farpage::ucx::make_ucx_fabric(options);
}
