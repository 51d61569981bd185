#include "net/security/token_fingerprint.h"

#include <fmt/format.h>

#include "net/security/greeting_wire.h"

namespace farpage {

// Of a side that no greeting has, so that it is no part of a proof.
std::string fingerprint(const SharedToken& token) {
  const Proof proof = greeting::prove(token, "fingerprint", {}, {}, 0, {});
  std::string digits;
  for (size_t i = 0; i < 8; ++i)
    digits += fmt::format("{:02x}", std::to_integer<unsigned>(proof[i]));
  return digits;
}

}  // namespace farpage
