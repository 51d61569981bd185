#include "cli/exit_code.h"

#include <fmt/format.h>

#include <cstdio>

namespace farpage {

int report_error(const Error& error, int exit_code) {
  fmt::print(stderr, "farpage: {}\n", error.message);
  return exit_code;
}

}  // namespace farpage
