#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace farpage {

enum class CgroupVersion : uint8_t { kFirst, kSecond };

struct Cgroup {
  CgroupVersion version;
  std::string folder;  // with a / at its end, without `root`
};

// The control groups that this process is in, its own first and then each above it, as far as they
// can be seen from here: what binds one of them binds this process. Those of version 2, whatever
// their controllers, and those of this controller's hierarchy of version 1; folders that are not
// there are among them. `root` is prepended to /proc, for tests.
std::vector<Cgroup> cgroups_of(std::string_view controller, const std::string& root = "");

}  // namespace farpage
