#include "doctor/backends/backend_finding.h"

#include <fmt/format.h>

namespace farpage::doctor {

Finding backend_finding(const BackendCheck& backend, const HostSide& host, const Wanted& wanted) {
  Finding finding = {"backends", std::string(backend.name), host.level, host.text, host.command,
                     {&backend}};
  if (wanted.built.has(backend)) return finding;
  finding.level = Level::kProblem;
  finding.text = fmt::format("not in this build of farpage, which has {}; on the host: {}",
                             wanted.built.names(), host.text);
  if (finding.command.empty()) finding.command = command_for_another(wanted);
  return finding;
}

std::string command_for_another(const Wanted& wanted) {
  const BackendCheck* other = every_check().front();
  for (const BackendCheck* backend : every_check()) {
    // The last one reaches farthest.
    if (backend->runs_anywhere && wanted.built.has(*backend)) other = backend;
  }
  return fmt::format("farpage doctor --backend {}", other->name);
}

}  // namespace farpage::doctor
