#include "doctor/host/privileges.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

namespace farpage::doctor {
namespace {

constexpr uint64_t kCapIpcLock = 14;
constexpr uint64_t kCapSysResource = 24;

}  // namespace

std::string Privileges::as_root(const std::string& command) const {
  constexpr std::string_view kAnd = " && ";
  if (is_root) return command;
  std::string sudo = "sudo " + command;
  for (size_t at = sudo.find(kAnd); at != std::string::npos; at = sudo.find(kAnd, at + 1)) {
    sudo.insert(at + kAnd.size(), "sudo ");
  }
  return sudo;
}

std::string Privileges::write(const std::string& text, const std::string& path) const {
  return is_root ? fmt::format("echo {} > {}", text, shell_word(path))
                 : fmt::format("echo {} | sudo tee {}", text, shell_word(path));
}

std::string Privileges::set_sysctl(const std::string& key, const std::string& value) const {
  return as_root(fmt::format("sysctl -w {}={}", key, shell_word(value)));
}

Privileges read_privileges(const HostFiles& files) {
  constexpr const char* kStatus = "/proc/self/status";
  Privileges privileges;
  std::istringstream users(files.value(kStatus, "Uid").value_or(""));
  uint64_t real = 1;
  uint64_t effective = 1;
  privileges.is_root = users >> real >> effective && effective == 0;
  const std::string text = files.value(kStatus, "CapEff").value_or("");
  uint64_t capabilities = 0;
  std::from_chars(text.data(), text.data() + text.size(), capabilities, 16);
  privileges.may_lock_memory = (capabilities >> kCapIpcLock & 1) != 0;
  privileges.may_raise_limits = (capabilities >> kCapSysResource & 1) != 0;
  return privileges;
}

std::string shell_word(const std::string& text) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

}  // namespace farpage::doctor
