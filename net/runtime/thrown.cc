#include "net/runtime/thrown.h"

#include <cerrno>
#include <string>

namespace farpage {

tl::unexpected<Error> fail_thrown(const std::system_error& thrown) {
  const int error_number = thrown.code().value();
  const std::string what = thrown.what();
  if (error_number == EAGAIN) {
    return fail(Code::kExhausted,
                "cannot start a thread: " + what + "; raise the limit of processes (ulimit -u)");
  }
  return fail_errno(error_number, what.substr(0, what.rfind(": ")));  // less the error's own words
}

}  // namespace farpage
