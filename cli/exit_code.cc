#include "cli/exit_code.h"

#include <errno.h>
#include <fmt/format.h>

#include "base/stderr.h"

namespace farpage {

int report_error(const Error& error, int exit_code) {
  write_stderr(fmt::format("{}: {}\n", program_invocation_short_name, error.message));
  return exit_code;
}

}  // namespace farpage
