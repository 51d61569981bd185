#include "prefetch/registry/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace farpage::prefetch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Registry, EachNameIsThereOnceAndIsChosenByIt) {
  std::set<std::string_view> names;
  for (const PolicyInfo& info : policies()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    const auto chosen = choose_policy(info.name);
    ASSERT_TRUE(chosen.has_value()) << chosen.error().message;
    EXPECT_EQ(chosen->info->name, info.name);
    for (const Parameter& parameter : info.parameters) {
      EXPECT_GE(parameter.unset, parameter.least) << info.name << parameter.name;
      EXPECT_LE(parameter.unset, parameter.most) << info.name << parameter.name;
    }
  }
}

TEST(Registry, PrefetchersAreChosenAlike) {
  std::set<std::string_view> names;
  for (const PrefetcherInfo& info : prefetchers()) names.insert(info.name);
  EXPECT_THAT(names, ElementsAre("hot_spots", "learned", "majority", "markov", "milestone", "none",
                                 "oracle", "previous_selection", "random", "recency"));
  const auto chosen = choose_prefetcher("markov:least=3");
  ASSERT_TRUE(chosen.has_value()) << chosen.error().message;
  EXPECT_THAT(chosen->values, ElementsAre(3));
  EXPECT_THAT(choose_prefetcher("markof").error().message,
              HasSubstr("there is no prefetcher 'markof'; did you mean 'markov'?"));
  EXPECT_THAT(choose_prefetcher("none:x=1").error().message, HasSubstr("none has no parameters"));
}

TEST(Registry, ParametersAreSetByName) {
  const auto chosen = choose_policy("regret_aware:horizon=50:regret=2.5");
  ASSERT_TRUE(chosen.has_value()) << chosen.error().message;
  EXPECT_EQ(chosen->label, "regret_aware:horizon=50:regret=2.5");
  EXPECT_THAT(chosen->values, ElementsAre(1.5, 2.5, 0.98, 50));
}

TEST(Registry, AnAllocationStandsBeforeItsPolicy) {
  for (const AllocationInfo& info : allocations()) {
    EXPECT_TRUE(choose_policy(std::string(info.name) + "/lru").has_value()) << info.name;
  }
  const auto chosen = choose_policy("reasonalloc:window=64/h2o:recent=0.25");
  ASSERT_TRUE(chosen.has_value()) << chosen.error().message;
  EXPECT_EQ(chosen->label, "reasonalloc:window=64/h2o:recent=0.25");
  EXPECT_EQ(chosen->info->name, "h2o");
  EXPECT_THAT(chosen->values, ElementsAre(0.25));
  EXPECT_EQ(chosen->allocation->info->name, "reasonalloc");
  EXPECT_THAT(chosen->allocation->values, ElementsAre(0.93, 8, 64, 0.25));
  EXPECT_FALSE(choose_policy("h2o")->allocation.has_value());
}

TEST(Registry, ABudgetIsNotDividedAmongMoreHeadsThanCanHaveAPolicyEach) {
  const auto chosen = choose_policy("even/lru");
  EXPECT_TRUE(chosen->check({}, {64, 1'024}).has_value());
  EXPECT_THAT(chosen->check({}, {64, 1'025}).error().message,
              HasSubstr("even/lru: a budget is divided among 65536 heads at most, and the trace "
                        "has 65600"));
  EXPECT_TRUE(choose_policy("lru")->check({}, {64, 1'025}).has_value());
}

TEST(Registry, PoliciesOfAllHeadsDoNotTakeMoreMemoryThanThereMayBe) {
  EXPECT_THAT(choose_policy("even/windowed_recency:window=1e8")->check({}, {4, 11}).error().message,
              HasSubstr("44 heads have a policy of 400000000 bytes each, 17600000000 bytes in all, "
                        "and 17179869184 is the most"));
  for (const char* name :
       {"even/windowed_recency:window=1e8", "even/milestone", "even/reuse_rate:kinds=1000"}) {
    EXPECT_TRUE(choose_policy(name)->check({}, {4, 10}).has_value()) << name;
    EXPECT_FALSE(choose_policy(name)->check({}, {64, 1'024}).has_value()) << name;
  }
  EXPECT_TRUE(choose_policy("milestone")->check({}, {64, 1'024}).has_value());
}

TEST(Registry, AnAllocationNeedsItsSignalAndItsPolicysToo) {
  Signals signals;
  EXPECT_THAT(choose_policy("reasonalloc/lru")->check(signals, {}).error().message,
              HasSubstr("reasonalloc needs the column 'mass'"));
  EXPECT_TRUE(choose_policy("even/lru")->check(signals, {}).has_value());
  EXPECT_THAT(choose_policy("even/h2o")->check(signals, {}).error().message,
              HasSubstr("h2o needs the column 'mass'"));
  signals.set(index_of(Signal::kMass));
  EXPECT_TRUE(choose_policy("reasonalloc/lru")->check(signals, {}).has_value());
  EXPECT_THAT(choose_policy("reasonalloc/workload_aware")->check(signals, {}).error().message,
              HasSubstr("workload_aware needs the column 'category'"));
}

struct Refused {
  const char* text;
  const char* because;
};
class RegistryRefuses : public testing::TestWithParam<Refused> {};

TEST_P(RegistryRefuses, AndSaysWhatThereIs) {
  const auto chosen = choose_policy(GetParam().text);
  ASSERT_FALSE(chosen.has_value());
  EXPECT_EQ(chosen.error().code, Code::kInvalid);
  EXPECT_THAT(chosen.error().message, HasSubstr(GetParam().because));
}

INSTANTIATE_TEST_SUITE_P(
    Bad, RegistryRefuses,
    testing::Values(
        Refused{"", "there is no policy ''"}, Refused{"s3fif0", "did you mean 's3fifo'?"},
        Refused{"magic", "choose among attention, belady, cost_aware"},
        Refused{"lru:window=3", "lru has no parameters"},
        Refused{"windowed_recency:windov=3", "did you mean 'window'?"},
        Refused{"windowed_recency:window", "write windowed_recency:PARAMETER=VALUE"},
        Refused{"windowed_recency:window=0", "window of windowed_recency is a number from 1"},
        Refused{"windowed_recency:window=nan", "is a number from 1"},
        Refused{"windowed_recency:window=3x", "is a number from 1"},
        Refused{"windowed_recency::window=3", "sets no parameter"},
        Refused{"reasonaloc/lru", "no allocation 'reasonaloc'; did you mean 'reasonalloc'?"},
        Refused{"magic/lru", "choose among even, reasonalloc"},
        Refused{"/lru", "there is no allocation ''"},
        Refused{"reasonalloc/lruu", "no policy 'lruu'; did you mean 'lru'?"},
        Refused{"reasonalloc/", "there is no policy ''"},
        Refused{"even/even/lru", "there is no policy 'even/lru'"},
        Refused{"reasonalloc:windov=3/lru", "did you mean 'window'?"},
        Refused{"reasonalloc:probes=9/lru", "probes of reasonalloc is a number from 1 to 8"},
        Refused{"even:window=3/lru", "even has no parameters"},
        Refused{"reasonalloc:window=3", "write reasonalloc/POLICY"}));

}  // namespace
}  // namespace farpage::prefetch
