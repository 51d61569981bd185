#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "pagetable/epoch.h"

// Options that campaigns against simulated clusters and against real processes share.
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

inline Result<void> check_cluster_size(uint64_t clients, uint64_t nodes, uint64_t replicas) {
  const auto check = [](uint64_t count, const std::string& what, uint64_t most) -> Result<void> {
    if (count > 0 && count <= most) return {};
    return fail(Code::kInvalid, fmt::format("{} {}: choose 1 to {}", count, what, most));
  };
  return check(clients, "clients", 64)
      .and_then([&] { return check(nodes, "nodes", 64); })
      .and_then([&] {
        return check(replicas, fmt::format("replicas on {} nodes", nodes),
                     std::min<uint64_t>(nodes, kMaxReplicas));
      });
}

}  // namespace farpage::chaos
