#include "doctor/backends/backend_ucx.h"

#include <fmt/format.h>

#include "doctor/backends/backend_tcp.h"

namespace farpage::doctor {
namespace {

HostSide host_side(const UcxFacts& facts, const Wanted& wanted, const Privileges& privileges) {
  if (facts.libucp.empty()) {
    return {Level::kProblem, "UCX is not installed", privileges.as_root("apt-get install libucx0")};
  }
  if (wanted.built.has(kUcxCheck) && !facts.has_module) {
    return {Level::kProblem,
            fmt::format("the program loads it from {}, which is not there", wanted.ucx_module),
            "cmake --install build/release  # puts it beside the program"};
  }
  return {Level::kOk,
          fmt::format("{}; `ucx_info -d` lists the transports and devices that it has here",
                      facts.libucp),
          ""};
}

}  // namespace

UcxFacts read_ucx(const HostFiles& files, const Wanted& wanted) {
  const bool has_module = files.exists(wanted.ucx_module);
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/lib", "/usr/local/lib", "/opt/ucx/lib"}) {
    std::string path = std::string(folder) + "/libucp.so.0";
    if (files.exists(path)) return {std::move(path), has_module};
  }
  return {{}, has_module};
}

Finding check_ucx(const UcxFacts& facts, const Wanted& wanted, const Privileges& privileges) {
  return backend_finding(kUcxCheck, host_side(facts, wanted, privileges), wanted);
}

const BackendCheck kUcxCheck = {
    .name = "ucx",
    .locks_memory = true,
    .descriptors_of_client = descriptors_over_tcp,  // which was not measured
    .examine =
        [](const Wanted& wanted, const HostFiles& files, const Privileges& privileges) {
          return check_ucx(read_ucx(files, wanted), wanted, privileges);
        },
};

}  // namespace farpage::doctor
