#pragma once

#include <cstdint>
#include <string>

#include "doctor/host/host_files.h"

namespace farpage::doctor {

// The rights of this process, and so the way to write a command that needs root.
struct Privileges {
  bool is_root = false;
  bool may_lock_memory = false;   // CAP_IPC_LOCK
  bool may_raise_limits = false;  // CAP_SYS_RESOURCE, which root in a container often lacks

  // Each of the commands that `&&` joins runs as root.
  std::string as_root(const std::string& command) const;
  std::string write(const std::string& text, const std::string& path) const;
  std::string set_sysctl(const std::string& key, const std::string& value) const;
};

Privileges read_privileges(const HostFiles& files);

// One word for a shell.
std::string shell_word(const std::string& text);

}  // namespace farpage::doctor
