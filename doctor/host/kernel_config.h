#pragma once

#include <optional>
#include <string>

#include "doctor/host/host_files.h"

namespace farpage::doctor {

// The options that this kernel was built with: /proc/config.gz, or /boot/config-RELEASE.
class KernelConfig {
 public:
  static KernelConfig read(const HostFiles& files);

  // Built in or as a module; nothing if no configuration can be read.
  std::optional<bool> has(const std::string& option) const;

 private:
  std::string text_;
};

}  // namespace farpage::doctor
