#pragma once

#include <string>
#include <string_view>

namespace farpage::ucx {

// Whether shared memory with this name, UCX's for posix or sysv, can be attached now. UCX 1.13
// crashes when ucp_ep_rkey_unpack meets memory whose owner has gone, so it is asked here first.
bool can_attach(const std::string& component, std::string_view packed_name);

}  // namespace farpage::ucx
