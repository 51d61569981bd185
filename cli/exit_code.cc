#include "cli/exit_code.h"

#include <errno.h>
#include <fmt/format.h>

#include <cstdio>

namespace farpage {

int report_error(const Error& error, int exit_code) {
  fmt::print(stderr, "{}: {}\n", program_invocation_short_name, error.message);
  return exit_code;
}

}  // namespace farpage
