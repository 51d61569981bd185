#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace farpage {

enum class Code : uint8_t {
  kOk,
  kInvalid,      // the caller's or the user's input is wrong
  kNotFound,     // what was named does not exist
  kExists,       // what was to be made exists already
  kTimeout,      // the deadline came first
  kUnavailable,  // the peer cannot be reached, or does not serve now
  kExhausted,    // no memory, slot, credit or descriptor is left
  kDenied,       // not permitted
  kAborted,      // ended before it was done
  kProtocol,     // a peer said something that it must not say
  kSystem,       // the operating system refused; see errno in the message or the vendor code
  kOtherEpoch,   // the peer is in another epoch: look at the register, and ask again
};

inline constexpr int kCodes = static_cast<int>(Code::kOtherEpoch) + 1;

// "not found", "timed out", …: for messages and logs.
const char* code_name(Code code);

// The result of the data path: trivially copyable, never allocates. `context` is a string literal.
struct [[nodiscard]] Status {
  Code code = Code::kOk;
  int32_t vendor = 0;  // errno, or the backend's own code
  const char* context = "";

  bool ok() const { return code == Code::kOk; }
};

// The result of set-up and control: a sentence that tells a person what to do about it.
struct Error {
  Code code;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Code code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

// `what: strerror(errno)`, with kExhausted for a lack of memory or descriptors, kDenied for a lack
// of rights.
tl::unexpected<Error> fail_errno(int error_number, const std::string& what);

}  // namespace farpage
