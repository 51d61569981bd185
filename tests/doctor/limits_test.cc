#include "doctor/limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "doctor/backends/backend_shm.h"
#include "doctor/backends/backend_tcp.h"
#include "doctor/backends/backend_ucx.h"
#include "doctor/backends/backend_verbs.h"
#include "tests/doctor/made_up_host.h"

namespace farpage::doctor {
namespace {

constexpr uint64_t kPool = uint64_t{1040} << 20;

struct Case {
  LimitFacts limit;
  Privileges privileges;
  Level level;
  const char* command;
};

void expect_all(std::initializer_list<Case> cases,
                Finding (*check)(const LimitFacts&, const Wanted&, const Privileges&)) {
  for (const Case& each : cases) {
    const Finding finding = check(each.limit, some_wanted(), each.privileges);
    EXPECT_EQ(finding.level, each.level) << finding.text;
    EXPECT_EQ(finding.command, each.command) << finding.text;
  }
}

// Of a container that may not raise its limits.
constexpr Privileges kBareRoot = {true, false, false};
constexpr Privileges kFullRoot = {true, false, true};

TEST(DoctorLimits, MemlockMustHoldThePool) {
  expect_all({{{UINT64_MAX, UINT64_MAX}, kUser, Level::kOk, ""},
              {{kPool, kPool}, kUser, Level::kOk, ""},
              {{kPool - 1, kPool},
               kUser,
               Level::kProblem,
               "sudo prlimit --pid $$ --memlock=unlimited:unlimited"},
              {{65'536, UINT64_MAX}, kUser, Level::kProblem, "ulimit -l unlimited"},
              {{65'536, 65'536}, kFullRoot, Level::kProblem, "ulimit -l unlimited"},
              {{65'536, 65'536}, kBareRoot, Level::kProblem, "farpage doctor --backend tcp"},
              {{65'536, 65'536}, kRoot, Level::kOk, ""}},
             [](const LimitFacts& facts, const Wanted& wanted, const Privileges& privileges) {
               return check_memlock(facts, 1, wanted, privileges);
             });
}

TEST(DoctorLimits, MemlockCountsThePoolOnceForEachRdmaDevice) {
  const auto level = [](uint64_t limit, size_t devices) {
    return check_memlock({limit, limit}, devices, some_wanted(), kUser).level;
  };
  EXPECT_EQ(level(kPool, 0), Level::kOk) << "there may be one tomorrow";
  EXPECT_EQ(level(3 * kPool, 3), Level::kOk);
  EXPECT_EQ(level(3 * kPool - 1, 3), Level::kProblem);
  EXPECT_EQ(level(8 * kPool, 20), Level::kOk) << "a node uses eight at most";
  const Finding finding = check_memlock({kPool, kPool}, 3, some_wanted(), kUser);
  EXPECT_NE(finding.text.find("with each of 3 devices, which counts as 3.0 GiB"), std::string::npos)
      << finding.text;
  Wanted endless = some_wanted();
  endless.memory_bytes = UINT64_MAX / 2;
  EXPECT_EQ(check_memlock({UINT64_MAX - 1, UINT64_MAX - 1}, 3, endless, kUser).level,
            Level::kProblem);
}

TEST(DoctorLimits, MemlockSaysWhatStagingAdds) {
  Wanted wanted = some_wanted();
  wanted.staging_bytes = 64 << 20;
  for (const uint64_t limit : {uint64_t{65'536}, kPool, UINT64_MAX}) {
    const std::string text = check_memlock({limit, limit}, 2, wanted, kUser).text;
    EXPECT_NE(text.find("client.staging_bytes, 64 MiB by default): 12.5 GiB for 100 clients"),
              std::string::npos)
        << text;
  }
  wanted.staging_bytes = UINT64_MAX / 2;
  const std::string text = check_memlock({kPool, kPool}, 2, wanted, kUser).text;
  EXPECT_NE(text.find(": 16777216.0 TiB for"), std::string::npos) << text;
}

TEST(DoctorLimits, OnlyRdmaNeedsMemlock) {
  EXPECT_EQ(check_memlock({0, 0}, 1, some_wanted(), kUser).needed_by,
            (BackendSet{&kVerbsCheck, &kUcxCheck}));
}

// 100 clients of four, and the node's own 64.
TEST(DoctorLimits, DescriptorsForEveryClient) {
  expect_all({{{464, 464}, kUser, Level::kOk, ""},
              {{463, 4'096}, kUser, Level::kWarning, "ulimit -n 464"},
              {{463, 463}, kUser, Level::kWarning, "sudo prlimit --pid $$ --nofile=464:464"},
              {{463, 463}, kRoot, Level::kWarning, "ulimit -n 464"},
              {{463, 463}, kBareRoot, Level::kWarning, "farpage node --set node.max_clients=99"},
              {{68, 4'096}, kUser, Level::kWarning, "ulimit -n 464"},
              {{67, 4'096}, kUser, Level::kProblem, "ulimit -n 464"},
              {{20, 4'096}, kUser, Level::kProblem, "ulimit -n 464"}},
             [](const LimitFacts& facts, const Wanted& wanted, const Privileges& privileges) {
               return check_descriptors(facts, 3, wanted, privileges);
             });
}

TEST(DoctorLimits, ShmAloneNeedsFewer) {
  Wanted wanted = some_wanted();
  wanted.asked = {&kShmCheck};
  EXPECT_EQ(check_descriptors({264, 264}, 3, wanted, kUser).level, Level::kOk);
  EXPECT_EQ(check_descriptors({263, 263}, 3, wanted, kUser).command,
            "sudo prlimit --pid $$ --nofile=264:264");
}

// The clients are not measured.
TEST(DoctorLimits, UcxIsReckonedAsTcp) {
  Wanted wanted = some_wanted();
  wanted.asked = {&kShmCheck, &kUcxCheck};
  const Finding finding = check_descriptors({463, 463}, 3, wanted, kUser);
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_NE(finding.text.find("need 464: 4 each on tcp"), std::string::npos) << finding.text;
}

// 100 clients of 2 and 3 a device, and the node's own 64.
TEST(DoctorLimits, VerbsNeedsMoreWithEachDevice) {
  Wanted wanted = some_wanted();
  wanted.asked = {&kTcpCheck, &kVerbsCheck};
  const auto command = [&](uint64_t limit, size_t devices) {
    return check_descriptors({limit, 8'192}, devices, wanted, kUser).command;
  };
  EXPECT_EQ(command(563, 0), "ulimit -n 564") << "there may be one tomorrow";
  EXPECT_EQ(command(563, 1), "ulimit -n 564");
  EXPECT_EQ(command(564, 1), "");
  EXPECT_EQ(command(863, 2), "ulimit -n 864");
  EXPECT_EQ(command(864, 2), "");
  EXPECT_EQ(command(2'663, 20), "ulimit -n 2664") << "a node uses eight at most";
  EXPECT_EQ(command(2'664, 20), "");
  const Finding finding = check_descriptors({564, 564}, 1, wanted, kUser);
  EXPECT_NE(finding.text.find("need 564: 5 each on verbs with 1 device, and 64"), std::string::npos)
      << finding.text;
}

TEST(DoctorLimits, AreThoseOfThisProcess) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lower = {before.rlim_cur - 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  EXPECT_EQ(read_limit(RLIMIT_NOFILE).soft, before.rlim_cur - 1);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace farpage::doctor
