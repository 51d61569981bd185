#include "doctor/backend_finding.h"

#include <fmt/format.h>

namespace farpage::doctor {

Finding backend_finding(BackendSet backend, const HostSide& host, const Wanted& wanted) {
  Finding finding = {"backends", backend_names(backend), host.level,
                     host.text,  host.command,           backend};
  if ((wanted.built & backend) != 0) return finding;
  finding.level = Level::kProblem;
  finding.text = fmt::format("not in this build of farpage, which has {}; on the host: {}",
                             backend_names(wanted.built), host.text);
  if (finding.command.empty()) {
    finding.command =
        fmt::format("farpage doctor --backend {}", (wanted.built & kTcp) != 0 ? "tcp" : "shm");
  }
  return finding;
}

}  // namespace farpage::doctor
