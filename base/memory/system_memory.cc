#include "base/memory/system_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/units.h"

namespace farpage {
namespace {

struct CgroupFiles {
  std::string mount;
  const char* limit;
  const char* usage;
  const char* reclaimable;  // a key in memory.stat
};

bool read_number(const std::string& path, uint64_t& value) {
  std::ifstream file(path);
  return static_cast<bool>(file >> value);  // "max" leaves it unread
}

uint64_t read_keyed(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  uint64_t value = 0;
  while (file >> word >> value) {
    if (word == key) return value;
  }
  return 0;
}

uint64_t mem_available(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key;
    uint64_t kib = 0;
    if (words >> key >> kib && key == "MemAvailable:") return kib * kKiB;
  }
  return UINT64_MAX;
}

// The first version of cgroups has a huge number for "no limit".
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

// A limit binds everything below it, so every ancestor is asked.
void ask_cgroups(const std::string& root, const CgroupFiles& files, std::string group,
                 MemoryLeft& left) {
  while (true) {
    const std::string folder = files.mount + group + "/";
    const std::string limit_file = folder + files.limit;
    uint64_t limit = 0;
    uint64_t usage = 0;
    if (read_number(root + limit_file, limit) && limit < kNoLimit &&
        read_number(root + folder + files.usage, usage)) {
      usage -= std::min(usage, read_keyed(root + folder + "memory.stat", files.reclaimable));
      const uint64_t bytes = limit - std::min(limit, usage);
      if (bytes < left.cgroup_bytes) {
        left.cgroup_bytes = bytes;
        left.limit_bytes = limit;
        left.limit_file = limit_file;
      }
    }
    if (group.empty()) return;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

MemoryLeft memory_left(const std::string& root) {
  MemoryLeft left;
  left.system_bytes = mem_available(root);
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {  // "0::/path" (version 2) or "9:memory:/path" (version 1)
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers == ",,") {
      const CgroupFiles v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
      ask_cgroups(root, v2, group, left);
    } else if (controllers.find(",memory,") != std::string::npos) {
      const CgroupFiles v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                              "memory.usage_in_bytes", "total_inactive_file"};
      ask_cgroups(root, v1, group, left);
    }
  }
  return left;
}

uint64_t available_memory_bytes(const std::string& root) {
  const MemoryLeft left = memory_left(root);
  return std::min(left.system_bytes, left.cgroup_bytes);
}

}  // namespace farpage
