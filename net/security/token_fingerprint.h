#pragma once

#include <string>

#include "net/security/greeting.h"

namespace farpage {

// 16 hexadecimal digits that say which token it is, and nothing that opens what the token does.
std::string fingerprint(const SharedToken& token);

}  // namespace farpage
