#include "doctor/backend_ucx.h"

namespace farpage::doctor {

UcxFacts read_ucx(const HostFiles& files) {
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/lib", "/usr/local/lib", "/opt/ucx/lib"}) {
    std::string path = std::string(folder) + "/libucp.so.0";
    if (files.exists(path)) return {std::move(path)};
  }
  return {};
}

Finding check_ucx(const UcxFacts& facts, const Wanted& wanted, const Privileges& privileges) {
  const HostSide host = facts.libucp.empty()
                            ? HostSide{Level::kProblem, "UCX is not installed",
                                       privileges.as_root("apt-get install libucx0")}
                            : HostSide{Level::kOk, facts.libucp, ""};
  return backend_finding(kUcx, host, wanted);
}

}  // namespace farpage::doctor
