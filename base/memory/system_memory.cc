#include "base/memory/system_memory.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <vector>

#include "base/memory/cgroups.h"
#include "base/units.h"

namespace farpage {
namespace {

struct MemoryFiles {
  const char* limit;
  const char* usage;
  const char* stat_prefix;  // of what memory.stat tells of the groups below, too
};

constexpr MemoryFiles kFirstVersion = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"};
constexpr MemoryFiles kSecondVersion = {"memory.max", "memory.current", ""};

bool read_number(const std::string& path, uint64_t& value) {
  std::ifstream file(path);
  return static_cast<bool>(file >> value);  // "max" leaves it unread
}

using MemoryStat = std::map<std::string, uint64_t>;

MemoryStat read_stat(const std::string& path) {
  std::ifstream file(path);
  MemoryStat stat;
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) stat[key] = value;
  return stat;
}

// Memory that the kernel gives back before it kills for lack of memory: the files' pages, whether
// they were used lately (active) or not, and mapped ones too; and of its own memory what it says it
// can. Not the pages that are still to be written, for which it may not wait long enough.
uint64_t reclaimable_bytes(const MemoryStat& stat, const std::string& prefix) {
  const auto sum = [&](std::initializer_list<const char*> keys) {
    uint64_t bytes = 0;
    for (const char* key : keys) {
      const auto found = stat.find(prefix + key);
      if (found != stat.end()) bytes += found->second;
    }
    return bytes;
  };
  const uint64_t files = sum({"active_file", "inactive_file"});
  const uint64_t unwritten =
      prefix.empty() ? sum({"file_dirty", "file_writeback"}) : sum({"dirty", "writeback"});
  return files - std::min(files, unwritten) + sum({"slab_reclaimable"});
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

void take_limit(const std::string& file, uint64_t limit, uint64_t used, MemoryLeft& left) {
  const uint64_t bytes = limit - std::min(limit, used);
  if (bytes >= left.cgroup_bytes) return;
  left.cgroup_bytes = bytes;
  left.limit_bytes = limit;
  left.limit_file = file;
}

void ask_cgroup(const std::string& root, const Cgroup& group, MemoryLeft& left) {
  const bool is_first = group.version == CgroupVersion::kFirst;
  const MemoryFiles& files = is_first ? kFirstVersion : kSecondVersion;
  uint64_t usage = 0;
  if (!read_number(root + group.folder + files.usage, usage)) return;
  const MemoryStat stat = read_stat(root + group.folder + "memory.stat");
  usage -= std::min(usage, reclaimable_bytes(stat, files.stat_prefix));
  const std::string limit_file = group.folder + files.limit;
  uint64_t limit = 0;
  if (read_number(root + limit_file, limit) && limit < kNoLimit) {
    take_limit(limit_file, limit, usage, left);
  }
  // That of groups above which cannot be seen from a container; version 2 does not tell it.
  const auto above = stat.find("hierarchical_memory_limit");
  if (is_first && above != stat.end() && above->second < kNoLimit) {
    take_limit(limit_file, above->second, usage, left);
  }
}

}  // namespace

MemoryLeft memory_left(const std::string& root) {
  MemoryLeft left;
  left.system_bytes = mem_available(root);
  const std::vector<Cgroup> groups = cgroups_of("memory", root);
  // From the root down: one above that can be seen is told of by itself, and not by those below.
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    ask_cgroup(root, *group, left);
  }
  return left;
}

uint64_t available_memory_bytes(const std::string& root) {
  const MemoryLeft left = memory_left(root);
  return std::min(left.system_bytes, left.cgroup_bytes);
}

}  // namespace farpage
