#include "net/security/file_rights.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace farpage {

Result<void> check_private(const std::string& path, const std::string& what) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0 || (status.st_mode & (S_IRWXG | S_IRWXO)) == 0) return {};
  return fail(Code::kDenied,
              fmt::format("others than its owner may use {} in '{}': run 'chmod 600 {}'", what,
                          path, path));
}

}  // namespace farpage
