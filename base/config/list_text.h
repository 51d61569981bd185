#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace farpage {

enum class ListOf : uint8_t {
  kWords,  // without spaces or semicolons: URLs, names of devices
  kPaths,  // NAME=PATH, whose path may have them
};

// The entries of a setting's list, which has commas between them, and perhaps spaces around them.
// Entries may be empty, and a comma at the end adds none. One with another separator is refused
// instead of being taken for a single entry.
Result<std::vector<std::string>> split_list(const std::string& setting, std::string_view text,
                                            ListOf kind);

}  // namespace farpage
