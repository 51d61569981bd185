#include "base/check.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/stderr.h"

namespace farpage {

void check_failed(const char* condition, const char* file, int line) {
  write_stderr(fmt::format("{}:{}: check failed: {}\n", file, line, condition));
  std::abort();
}

}  // namespace farpage
