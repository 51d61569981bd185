#include "cli/client/node_program.h"

#include <filesystem>
#include <system_error>

namespace farpage {

std::string node_program() {
  std::error_code ignored;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return own.empty() ? "" : own.parent_path() / "farpage";
}

}  // namespace farpage
