#include "cli/exit_code.h"

#include <errno.h>
#include <fmt/format.h>

#include "base/stderr.h"

namespace farpage {

Result<int> exit_code_of(uint64_t wrong_bytes, const Result<void>& written) {
  if (wrong_bytes > 0) {
    return fail(Code::kSystem, fmt::format("{} wrong bytes were served as ready{}", wrong_bytes,
                                           written ? "" : "; and " + written.error().message));
  }
  if (!written) return tl::unexpected(written.error());
  return kExitDone;
}

int report_error(const Error& error, int exit_code) {
  write_stderr(fmt::format("{}: {}\n", program_invocation_short_name, error.message));
  return exit_code;
}

}  // namespace farpage
