#include "base/memory/cgroups.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <sstream>

namespace farpage {
namespace {

bool names(std::string_view list, std::string_view word) {
  return fmt::format(",{},", list).find(fmt::format(",{},", word)) != std::string::npos;
}

// Where a hierarchy is mounted, and what of it: a container may see its own group as the root.
struct Mount {
  std::string folder;
  std::string group;
};

bool is_within(const std::string& group, const std::string& above) {
  return above.empty() || group == above || group.starts_with(above + "/");
}

// proc_pid_mountinfo(5): ID PARENT MAJOR:MINOR ROOT FOLDER OPTIONS … - TYPE SOURCE OPTIONS.
bool read_mount(const std::string& line, CgroupVersion version, std::string_view controller,
                Mount& mount) {
  std::istringstream stream(line);
  const std::vector<std::string> words(std::istream_iterator<std::string>(stream), {});
  size_t dash = 6;
  while (dash < words.size() && words[dash] != "-") ++dash;
  if (dash + 3 >= words.size()) return false;
  const bool fits = version == CgroupVersion::kSecond
                        ? words[dash + 1] == "cgroup2"
                        : words[dash + 1] == "cgroup" && names(words[dash + 3], controller);
  if (fits) mount = {words[4], words[3] == "/" ? "" : words[3]};
  return fits;
}

// The one that shows the group, if several are mounted.
Mount find_mount(const std::string& root, CgroupVersion version, std::string_view controller,
                 const std::string& group) {
  Mount found = {version == CgroupVersion::kSecond ? "/sys/fs/cgroup"
                                                   : fmt::format("/sys/fs/cgroup/{}", controller),
                 ""};
  std::ifstream mounts(root + "/proc/self/mountinfo");
  bool is_first = true;
  for (std::string line; std::getline(mounts, line);) {
    Mount mount;
    if (!read_mount(line, version, controller, mount)) continue;
    const bool shows = is_within(group, mount.group);
    if (is_first || shows) found = std::move(mount);
    if (shows) break;
    is_first = false;
  }
  return found;
}

void add_all(const std::string& root, CgroupVersion version, std::string_view controller,
             std::string group, std::vector<Cgroup>& found) {
  if (group == "/") group.clear();
  const Mount mount = find_mount(root, version, controller, group);
  if (is_within(group, mount.group)) group.erase(0, mount.group.size());
  // A group outside of what this process's namespace shows.
  if (group.starts_with("/..")) group.clear();
  while (true) {
    found.push_back({version, mount.folder + group + "/"});
    if (group.empty()) return;
    const size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

std::vector<Cgroup> cgroups_of(std::string_view controller, const std::string& root) {
  std::vector<Cgroup> found;
  std::ifstream groups(root + "/proc/self/cgroup");
  // "0::/path" (version 2) or "9:memory,hugetlb:/path" (version 1); on some hosts both.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      add_all(root, CgroupVersion::kSecond, controller, group, found);
    } else if (names(controllers, controller)) {
      add_all(root, CgroupVersion::kFirst, controller, group, found);
    }
  }
  return found;
}

}  // namespace farpage
