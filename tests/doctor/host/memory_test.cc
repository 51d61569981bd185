#include "doctor/host/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/units.h"
#include "doctor/backends/backend_shm.h"
#include "tests/doctor/made_up_host.h"

namespace farpage::doctor {
namespace {

struct Case {
  const char* meminfo;
  const char* overcommit;
  const char* cgroup_limit;  // of a version 2 cgroup that uses 100 MiB
  const char* max_map_count;
  Finding (*check)(const MemoryFacts&);
  Level level;
  const char* command;
};

Finding available(const MemoryFacts& facts) {
  return check_available(facts, some_wanted());
}
Finding available_for_the_default_pool(const MemoryFacts& facts) {
  Wanted wanted = some_wanted();
  wanted.names_pool = false;
  return check_available(facts, wanted);
}
// A pool of 16 GiB, whose clients may take a quarter of any pool, and 512 MiB at least.
Finding available_for_clients_too(const MemoryFacts& facts) {
  Wanted wanted = some_wanted();
  wanted.pool_bytes = wanted.memory_bytes = 16 * kGiB;
  wanted.client_bytes = 4 * kGiB;
  wanted.needed_bytes = [](uint64_t pool_bytes) {
    return pool_bytes + std::max(pool_bytes / 4, 512 * kMiB);
  };
  return check_available(facts, wanted);
}
// Of which a page is larger than what is left.
Finding available_for_large_pages(const MemoryFacts& facts) {
  Wanted wanted = some_wanted();
  wanted.needed_bytes = [](uint64_t pool_bytes) -> std::optional<uint64_t> {
    if (pool_bytes < 500 * kMiB) return std::nullopt;
    return pool_bytes;
  };
  return check_available(facts, wanted);
}
Finding cgroup_for_clients_too(const MemoryFacts& facts) {
  Wanted wanted = some_wanted();
  wanted.client_bytes = kGiB;
  return check_cgroup(facts, wanted, kRoot);
}
Finding cgroup(const MemoryFacts& facts) {
  return check_cgroup(facts, some_wanted(), kRoot);
}
Finding overcommit(const MemoryFacts& facts) {
  return check_overcommit(facts, some_wanted(), kUser);
}
Finding map_count(const MemoryFacts& facts) {
  return check_map_count(facts, some_wanted(), kRoot);
}

constexpr const char* kPlenty =
    "MemAvailable: 8388608 kB\nCommitLimit: 9000000 kB\nCommitted_AS: 1000000 kB\n";
// 512 MiB, of which nine tenths, and of them the share that pages have: 453 MiB.
constexpr const char* kLittle =
    "MemAvailable: 524288 kB\nCommitLimit: 1500000 kB\nCommitted_AS: 1000000 kB\n";

const Case kCases[] = {
    {kPlenty, "0", "max", "65530", available, Level::kOk, ""},
    {kLittle, "0", "max", "65530", available, Level::kProblem, "farpage node --pool-bytes 453MiB"},
    {kLittle, "0", "max", "65530", available_for_the_default_pool, Level::kWarning,
     "farpage node --pool-bytes 453MiB"},
    {"", "0", "max", "65530", available, Level::kNote, ""},
    {kPlenty, "0", "max", "65530", available_for_clients_too, Level::kProblem,
     "farpage node --pool-bytes 5898MiB"},
    {kLittle, "0", "max", "65530", available_for_clients_too, Level::kProblem,
     "ps -eo rss,pid,comm --sort=-rss | head"},
    {kLittle, "0", "max", "65530", available_for_large_pages, Level::kProblem,
     "ps -eo rss,pid,comm --sort=-rss | head"},
    {kPlenty, "0", "1073741824", "65530", cgroup_for_clients_too, Level::kProblem,
     "echo 2269118464 > /sys/fs/cgroup/job/memory.max"},
    {kPlenty, "0", "max", "65530", cgroup, Level::kOk, ""},
    {kPlenty, "0", "4294967296", "65530", cgroup, Level::kOk, ""},
    // 1040 MiB beside the 100 that are in use.
    {kPlenty, "0", "1073741824", "65530", cgroup, Level::kProblem,
     "echo 1195376640 > /sys/fs/cgroup/job/memory.max"},
    {kPlenty, "2", "max", "65530", overcommit, Level::kOk, ""},
    {kLittle, "0", "max", "65530", overcommit, Level::kOk, ""},
    {kLittle, "1", "max", "65530", overcommit, Level::kOk, ""},
    {kLittle, "2", "max", "65530", overcommit, Level::kProblem,
     "sudo sysctl -w vm.overcommit_memory=0"},
    {kPlenty, "0", "max", "1424", map_count, Level::kOk, ""},
    {kPlenty, "0", "max", "1423", map_count, Level::kWarning, "sysctl -w vm.max_map_count=1424"},
};

TEST(DoctorMemory, FindsWhatAMadeUpHostLacks) {
  for (const Case& each : kCases) {
    MadeUpHost host;
    host.put("/proc/meminfo", each.meminfo)
        .put("/proc/sys/vm/overcommit_memory", each.overcommit)
        .put("/proc/sys/vm/max_map_count", each.max_map_count)
        .put("/proc/self/cgroup", "0::/job\n")
        .put("/sys/fs/cgroup/job/memory.max", each.cgroup_limit)
        .put("/sys/fs/cgroup/job/memory.current", "104857600");
    const Finding finding = each.check(read_memory(host.files()));
    EXPECT_EQ(finding.level, each.level) << finding.text;
    EXPECT_EQ(finding.command, each.command) << finding.text;
  }
}

TEST(DoctorMemory, TheFirstVersionOfCgroupsIsMendedInItsOwnFile) {
  MadeUpHost host;
  host.put("/proc/self/cgroup", "4:memory:/job\n")
      .put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824")
      .put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1073741824");
  const Finding finding = check_cgroup(read_memory(host.files()), some_wanted(), kUser);
  EXPECT_EQ(finding.level, Level::kProblem);
  EXPECT_EQ(finding.command,
            "echo 2164260864 | sudo tee /sys/fs/cgroup/memory/job/memory.limit_in_bytes");
}

TEST(DoctorMemory, OnlyShmNeedsMappings) {
  EXPECT_EQ(check_map_count({}, some_wanted(), kRoot).needed_by, BackendSet{&kShmCheck});
}

}  // namespace
}  // namespace farpage::doctor
