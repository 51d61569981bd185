#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace farpage::chaos {

// Which of all kinds are named; without a name, all of them. `place`: what follows in an error.
template <size_t kCount>
Result<std::array<bool, kCount>> choose_kinds(const std::array<std::string_view, kCount>& all,
                                              const std::vector<std::string>& names,
                                              std::string_view place = "") {
  std::array<bool, kCount> kinds;
  kinds.fill(names.empty());
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, name);
    if (found == all.end()) {
      return fail(Code::kInvalid, fmt::format("there is no fault '{}'{}", name, place));
    }
    kinds[static_cast<size_t>(found - all.begin())] = true;
  }
  return kinds;
}

}  // namespace farpage::chaos
