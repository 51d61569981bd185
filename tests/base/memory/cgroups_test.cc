#include "base/memory/cgroups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CgroupsTest : public testing::Test {
 protected:
  CgroupsTest() { std::filesystem::create_directories(root_ / "proc/self"); }

  void put(const char* groups, const char* mounts) const {
    std::ofstream(root_ / "proc/self/cgroup") << groups;
    std::ofstream(root_ / "proc/self/mountinfo") << mounts;
  }
  std::vector<std::string> folders(const char* controller = "memory") const {
    std::vector<std::string> found;
    for (const Cgroup& group : cgroups_of(controller, root_ / "")) {
      found.push_back((group.version == CgroupVersion::kFirst ? "1 " : "2 ") + group.folder);
    }
    return found;
  }

 private:
  TempDir root_;
};

// Lines as in proc_pid_mountinfo(5).
constexpr const char* kHybrid =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:1 master:2 - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST_F(CgroupsTest, ItsOwnComesFirstAndThenEachAboveIt) {
  put("0::/a.slice/b.service/c\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  EXPECT_THAT(folders(), ElementsAre("2 /sys/fs/cgroup/a.slice/b.service/c/",
                                     "2 /sys/fs/cgroup/a.slice/b.service/",
                                     "2 /sys/fs/cgroup/a.slice/", "2 /sys/fs/cgroup/"));
}

TEST_F(CgroupsTest, HierarchiesOfBothVersionsAreFoundWhereTheyAreMounted) {
  put("9:cpuset:/z\n5:cpu,cpuacct:/job\n4:memory:/\n0::/\n", kHybrid);
  EXPECT_THAT(folders("cpu"),
              ElementsAre("1 /sys/fs/cgroup/cpu,cpuacct/job/", "1 /sys/fs/cgroup/cpu,cpuacct/",
                          "2 /sys/fs/cgroup/unified/"));
  EXPECT_THAT(folders("memory"),
              ElementsAre("1 /sys/fs/cgroup/memory/", "2 /sys/fs/cgroup/unified/"));
}

// Docker with version 1: the group's name is the host's, and its folder is all that is mounted.
TEST_F(CgroupsTest, AContainerMaySeeItsOwnGroupAsTheRoot) {
  put("4:memory:/docker/id/inner\n",
      "35 31 0:32 /docker/id /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  EXPECT_THAT(folders(), ElementsAre("1 /sys/fs/cgroup/memory/inner/", "1 /sys/fs/cgroup/memory/"));
  put("4:memory:/docker/identical\n",
      "35 31 0:32 /docker/id /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
      "36 31 0:32 / /host/memory ro - cgroup cgroup rw,memory\n");
  EXPECT_THAT(folders(), ElementsAre("1 /host/memory/docker/identical/", "1 /host/memory/docker/",
                                     "1 /host/memory/"))
      << "the mount that shows the group";
}

TEST_F(CgroupsTest, OutsideOfItsNamespaceOnlyTheRootIsLeft) {
  put("0::/../../other\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  EXPECT_THAT(folders(), ElementsAre("2 /sys/fs/cgroup/"));
}

TEST_F(CgroupsTest, WithoutAMountTheUsualFoldersAreTaken) {
  put("7:hugetlb,memory:/b\n0::/a\n", "");
  EXPECT_THAT(folders(), ElementsAre("1 /sys/fs/cgroup/memory/b/", "1 /sys/fs/cgroup/memory/",
                                     "2 /sys/fs/cgroup/a/", "2 /sys/fs/cgroup/"));
}

TEST_F(CgroupsTest, WhatIsNoGroupIsNone) {
  put("nonsense\n\n0:\n3:memory_other:/x\n", "1 2 3\n- - -\n");
  EXPECT_THAT(folders(), IsEmpty());
}

}  // namespace
}  // namespace farpage
