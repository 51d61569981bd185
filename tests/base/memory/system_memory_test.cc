#include "base/memory/system_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/units.h"

namespace farpage {
namespace {

class SystemMemoryTest : public ::testing::Test {
 protected:
  SystemMemoryTest()
      : root_(::testing::TempDir() + "system_memory_test." + std::to_string(::getpid())) {
    put("/proc/meminfo", "MemTotal: 2000000 kB\nMemAvailable:  1000000 kB\nBuffers: 5 kB\n");
  }
  ~SystemMemoryTest() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(SystemMemoryTest, WithoutALimitItIsWhatTheKernelSays) {
  EXPECT_EQ(available_memory_bytes(root_), 1000000 * kKiB);
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/memory.max", "max\n");
  put("/sys/fs/cgroup/memory.current", "5\n");
  EXPECT_EQ(available_memory_bytes(root_), 1000000 * kKiB);
}

TEST_F(SystemMemoryTest, ALimitOfAnyAncestorBinds) {
  put("/proc/self/cgroup", "0::/user/job\n");
  put("/sys/fs/cgroup/user/memory.max", "100000000\n");
  put("/sys/fs/cgroup/user/memory.current", "60000000\n");
  put("/sys/fs/cgroup/user/memory.stat", "anon 50000000\ninactive_file 10000000\n");
  put("/sys/fs/cgroup/user/job/memory.max", "90000000\n");
  put("/sys/fs/cgroup/user/job/memory.current", "1000000\n");
  EXPECT_EQ(available_memory_bytes(root_), 50000000u);
}

TEST_F(SystemMemoryTest, TheFirstVersionOfCgroupsCountsToo) {
  put("/proc/self/cgroup", "3:cpu:/a\n2:hugetlb,memory:/b\n");
  put("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "8000000\n");
  put("/sys/fs/cgroup/memory/b/memory.usage_in_bytes", "3000000\n");
  put("/sys/fs/cgroup/memory/b/memory.stat", "total_inactive_file 1000000\n");
  EXPECT_EQ(available_memory_bytes(root_), 6000000u);
}

// Of 512 MB, 400 MB that were read more than once: clean, and active.
TEST_F(SystemMemoryTest, PagesOfFilesAreFreeWhetherOrNotTheyWereUsedLately) {
  put("/proc/self/cgroup", "0::/a\n");
  put("/sys/fs/cgroup/a/memory.max", "536000000\n");
  put("/sys/fs/cgroup/a/memory.current", "430000000\n");
  put("/sys/fs/cgroup/a/memory.stat",
      "anon 9000000\nfile 405000000\nfile_mapped 70000000\nshmem 5000000\ninactive_anon 14000000\n"
      "inactive_file 100000000\nactive_file 300000000\nslab_reclaimable 10000000\n"
      "slab_unreclaimable 2000000\nslab 12000000\nworkingset_activate_file 7000000\n");
  EXPECT_EQ(available_memory_bytes(root_), 536000000u - 20000000u);

  put("/proc/self/cgroup", "2:memory:/b\n");
  put("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "536000000\n");
  put("/sys/fs/cgroup/memory/b/memory.usage_in_bytes", "430000000\n");
  put("/sys/fs/cgroup/memory/b/memory.stat",
      "cache 1\ninactive_file 2\nactive_file 3\ntotal_cache 405000000\n"
      "total_inactive_file 100000000\ntotal_active_file 300000000\n");
  EXPECT_EQ(available_memory_bytes(root_), 536000000u - 30000000u) << "with the groups below it";
}

TEST_F(SystemMemoryTest, WhatIsStillToBeWrittenIsNotFree) {
  put("/proc/self/cgroup", "0::/a\n");
  put("/sys/fs/cgroup/a/memory.max", "1000\n");
  put("/sys/fs/cgroup/a/memory.current", "900\n");
  put("/sys/fs/cgroup/a/memory.stat",
      "inactive_file 300\nactive_file 200\nfile_dirty 100\nfile_writeback 50\n");
  EXPECT_EQ(available_memory_bytes(root_), 1000u - 550u);
  put("/sys/fs/cgroup/a/memory.stat", "inactive_file 10\nactive_file 20\nfile_dirty 100\n");
  EXPECT_EQ(available_memory_bytes(root_), 100u) << "the figures are not of one moment";

  put("/proc/self/cgroup", "2:memory:/b\n");
  put("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "1000\n");
  put("/sys/fs/cgroup/memory/b/memory.usage_in_bytes", "900\n");
  put("/sys/fs/cgroup/memory/b/memory.stat",
      "total_inactive_file 300\ntotal_active_file 200\ntotal_dirty 100\ntotal_writeback 50\n");
  EXPECT_EQ(available_memory_bytes(root_), 1000u - 550u);
}

// The group's folder is the root of what the container sees, and its parent has less.
TEST_F(SystemMemoryTest, OfTheFirstVersionAlsoALimitThatCannotBeSeenBinds) {
  put("/proc/self/cgroup", "2:memory:/b\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "8000000\n");
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "3000000\n");
  put("/sys/fs/cgroup/memory/memory.stat",
      "hierarchical_memory_limit 5000000\nhierarchical_memsw_limit 9000000\n");
  EXPECT_EQ(available_memory_bytes(root_), 2000000u);
  put("/sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 9223372036854771712\n");
  EXPECT_EQ(available_memory_bytes(root_), 5000000u);
}

TEST_F(SystemMemoryTest, AGroupOverItsLimitHasNothingLeft) {
  put("/proc/self/cgroup", "0::/a\n");
  put("/sys/fs/cgroup/a/memory.max", "100\n");
  put("/sys/fs/cgroup/a/memory.current", "200\n");
  EXPECT_EQ(available_memory_bytes(root_), 0u);
}

TEST_F(SystemMemoryTest, BrokenFilesAreNoLimit) {
  put("/proc/self/cgroup", "nonsense\n\n0:\n0::relative\n:::::\n");
  put("/sys/fs/cgroup/memory.max", "many\n");
  EXPECT_EQ(available_memory_bytes(root_), 1000000 * kKiB);
  put("/proc/meminfo", "");
  EXPECT_EQ(available_memory_bytes(root_), UINT64_MAX);
}

TEST(SystemMemory, ThisMachineHasSome) {
  EXPECT_GT(available_memory_bytes(), kMiB);
}

}  // namespace
}  // namespace farpage
