#include "base/status.h"

#include <cerrno>
#include <cstring>

namespace farpage {

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalid:
      return "invalid";
    case Code::kNotFound:
      return "not found";
    case Code::kExists:
      return "exists already";
    case Code::kTimeout:
      return "timed out";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kExhausted:
      return "exhausted";
    case Code::kDenied:
      return "denied";
    case Code::kAborted:
      return "aborted";
    case Code::kProtocol:
      return "protocol violation";
    case Code::kSystem:
      return "system error";
    case Code::kOtherEpoch:
      return "another epoch";
  }
  return "unknown";
}

namespace {

// And which limit to raise where one was in the way.
std::string explain(int error_number) {
  std::string why = std::strerror(error_number);
  if (error_number == EMFILE) why += "; raise the limit of open descriptors (ulimit -n)";
  if (error_number == ENFILE) why += "; raise the system's limit (sysctl fs.file-max)";
  return why;
}

}  // namespace

tl::unexpected<Error> fail_errno(int error_number, const std::string& what) {
  Code code = Code::kSystem;
  switch (error_number) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EAGAIN:
      code = Code::kExhausted;
      break;
    case EACCES:
    case EPERM:
      code = Code::kDenied;
      break;
    case ENOENT:
      code = Code::kNotFound;
      break;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      code = Code::kUnavailable;
      break;
    default:
      break;
  }
  return fail(code, what + ": " + explain(error_number));
}

}  // namespace farpage
