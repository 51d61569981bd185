#include "doctor/host/huge_pages.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/doctor/made_up_host.h"

namespace farpage::doctor {
namespace {

HugePageFacts with(int collapse_error, const std::string& shmem_enabled) {
  HugePageFacts facts;
  facts.collapse_error = collapse_error;
  facts.shmem_enabled = shmem_enabled;
  return facts;
}

TEST(DoctorHugePages, PoolsHaveThemByCollapseOrBySetting) {
  struct Case {
    int collapse_error;
    const char* shmem_enabled;
    Level level;
  };
  for (const Case& each :
       {Case{0, "never", Level::kOk}, Case{EINVAL, "advise", Level::kOk},
        Case{EINVAL, "always", Level::kOk}, Case{0, "", Level::kOk},
        Case{EINVAL, "never", Level::kWarning}, Case{ENOMEM, "deny", Level::kWarning}}) {
    const Finding finding =
        check_pool_huge_pages(with(each.collapse_error, each.shmem_enabled), kRoot);
    EXPECT_EQ(finding.level, each.level) << finding.text;
    EXPECT_EQ(finding.command, each.level == Level::kOk
                                   ? ""
                                   : "echo advise > /sys/kernel/mm/transparent_hugepage/"
                                     "shmem_enabled");
  }
}

struct Setting {
  const char* name;
  const char* choices;
  Finding (*check)(const HugePageFacts&, const Privileges&);
  Level level;
  const char* command;
};

TEST(DoctorHugePages, SettingsOfAMadeUpHost) {
  for (const Setting& each : {
           Setting{"enabled", "always [madvise] never", check_thp_enabled, Level::kOk, ""},
           Setting{"enabled", "[always] madvise never", check_thp_enabled, Level::kOk, ""},
           Setting{"enabled", "always madvise [never]", check_thp_enabled, Level::kWarning,
                   "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"},
           Setting{"enabled", "nonsense", check_thp_enabled, Level::kNote, ""},
           Setting{"defrag", "always defer defer+madvise [madvise] never", check_thp_defrag,
                   Level::kOk, ""},
           Setting{"defrag", "[always] defer defer+madvise madvise never", check_thp_defrag,
                   Level::kWarning,
                   "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/defrag"},
           Setting{"defrag", "", check_thp_defrag, Level::kNote, ""},
       }) {
    MadeUpHost host;
    host.put(std::string("/sys/kernel/mm/transparent_hugepage/") + each.name, each.choices);
    const Finding finding = each.check(read_huge_pages(host.files()), kUser);
    EXPECT_EQ(finding.level, each.level) << each.choices << ": " << finding.text;
    EXPECT_EQ(finding.command, each.command);
  }
}

TEST(DoctorHugePages, ReservedOnesLieIdle) {
  MadeUpHost host;
  host.put("/proc/meminfo", "HugePages_Total:     512\nHugepagesize:       2048 kB\n");
  const Finding reserved = check_reserved_huge_pages(read_huge_pages(host.files()), kRoot);
  EXPECT_EQ(reserved.level, Level::kNote);
  EXPECT_NE(reserved.text.find("1 GiB"), std::string::npos) << reserved.text;
  EXPECT_EQ(reserved.command, "sysctl -w vm.nr_hugepages=0");
  EXPECT_EQ(check_reserved_huge_pages({}, kRoot).level, Level::kOk);
}

}  // namespace
}  // namespace farpage::doctor
