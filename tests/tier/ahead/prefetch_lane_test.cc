#include "tests/tier/ahead/prefetch_fixture.h"

namespace farpage {
namespace {

using prefetch::Mark;

TEST_F(PrefetchTest, PageThatIsHereIsLentAndNotReadAgain) {
  put_all(4);
  hear_of(4);
  bring({1, 2});
  const uint64_t looks = lane_.demand_stats().index_looks;
  const uint64_t before = lane_.demand_stats().operations;
  {
    const Demand demand = demand_now({1, 2});
    for (size_t page : {0, 1}) {
      EXPECT_EQ(demand.verdicts[page].verdict, Verdict::kReady);
      EXPECT_FALSE(is_in_frame(demand, page));
      EXPECT_EQ(put_number(demand, page), 101 + page);
      EXPECT_TRUE(is_untouched(page));
    }
    EXPECT_EQ(lane_.demand_stats().operations - before, 2u) << "a header each";
    EXPECT_EQ(lane_.demand_stats().index_looks, looks);
    expect_accounted(lane_.report(), 2);
  }
  expect_accounted(lane_.report(), 0);
  EXPECT_EQ(lane_.report().pages.timely, 2u);
  EXPECT_EQ(lane_.report().lent, 2u);
}

TEST_F(PrefetchTest, WithNothingFetchedAheadItIsAFetch) {
  put_all(3);
  hear_of(3);
  const Demand demand = demand_now({0, 2, 9});
  EXPECT_EQ(put_number(demand, 0), 100u);
  EXPECT_EQ(put_number(demand, 1), 102u);
  EXPECT_TRUE(is_in_frame(demand, 1));
  EXPECT_EQ(demand.verdicts[2].reason, Reason::kMiss);
  EXPECT_TRUE(demand.fetch.released());
  EXPECT_EQ(lane_.report().pages.begun, 0u);
}

TEST_F(PrefetchTest, PlaceIsLentUntilTheDemandGoes) {
  put_all(12);
  hear_of(12);
  bring({1});
  Demand held = demand_now({1});
  const std::vector<std::byte> before(held.verdicts[0].landed,
                                      held.verdicts[0].landed + kPageBytes);
  bring({2, 3, 4, 5, 6, 7, 8});
  expect_next({9}, 3);
  drive(10 * kReadNs);
  EXPECT_EQ(lane_.report().taken_places, 8u);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), held.verdicts[0].landed));
  held.fetch = DemandFetch();
  expect_accounted(lane_.report(), 0);
}

// One page of each kind in one demand.
TEST_F(PrefetchTest, DemandMixesWhatIsHereUnderWayAndAway) {
  put_all(6);
  hear_of(6);
  bring({1});
  set_delay(20 * kReadNs);
  expect_next({2});
  ASSERT_EQ(lane_.report().under_way, 1u);
  set_delay(kReadNs);
  const Demand demand = demand_now({3, 1, 2, 4, 9});
  for (size_t page : {0, 1, 2, 3}) {
    EXPECT_EQ(put_number(demand, page), std::vector({103, 101, 102, 104})[page]);
    EXPECT_EQ(is_in_frame(demand, page), page == 0 || page == 3);
  }
  EXPECT_EQ(demand.verdicts[4].reason, Reason::kMiss);
  // Of those that it has heard of.
  EXPECT_EQ(script_.missed, (std::vector<prefetch::PageNumber>{3, 2, 4}));
  EXPECT_EQ(lane_.report().pages.timely, 1u);
  EXPECT_EQ(lane_.report().pages.late, 1u);
}

TEST_F(PrefetchTest, SamePageTwiceInADemandIsAnsweredTwice) {
  put_all(2);
  hear_of(2);
  bring({1});
  const Demand demand = demand_now({1, 1});
  EXPECT_EQ(put_number(demand, 0), 101u);
  EXPECT_EQ(put_number(demand, 1), 101u);
  EXPECT_FALSE(is_in_frame(demand, 0));
  EXPECT_TRUE(is_in_frame(demand, 1));
}

TEST_F(PrefetchTest, AnnouncedPagesAreFetchedWhileTheRequestWaits) {
  put_all(4);
  const std::vector<PageKey> keys = {test_key(1), test_key(2), test_key(3)};
  lane_.announce(keys);
  drive(20 * kReadNs);
  EXPECT_EQ(lane_.report().here, 3u);
  hear_of(1, 1'000);
  EXPECT_EQ(lane_.report().here, 3u) << "their time is not over before they are withdrawn";
  EXPECT_EQ(put_number(demand_now({2})), 102u);
  lane_.withdraw(keys);
  EXPECT_EQ(lane_.report().here, 0u);
  EXPECT_EQ(lane_.report().pages.timely, 1u);
  EXPECT_EQ(lane_.report().pages.unused, 2u);
  expect_accounted(lane_.report(), 0);
}

TEST_F(PrefetchTest, WhatTwoRequestsAnnouncedStaysUntilBothHaveWithdrawnIt) {
  put_all(2);
  const std::vector<PageKey> keys = {test_key(1)};
  lane_.announce(keys);
  lane_.announce(keys);
  drive(20 * kReadNs);
  lane_.withdraw(keys);
  EXPECT_EQ(lane_.report().here, 1u);
  lane_.withdraw(keys);
  EXPECT_EQ(lane_.report().here, 0u);
}

TEST_F(PrefetchTest, WhatTheEngineGetsMeanwhileIsNotFetchedAndNotKept) {
  put_all(4);
  hear_of(4);
  script_.names = {1};
  lane_.observe({{{.key = test_key(0), .step = 2}}});
  lane_.set_near(std::vector{test_key(1)}, true);
  lane_.progress();
  EXPECT_EQ(lane_.report().pages.begun, 0u);
  EXPECT_EQ(lane_.report().pages.cancelled, 1u);
  bring({2});
  lane_.set_near(std::vector{test_key(2)}, true);
  EXPECT_EQ(lane_.report().here, 0u);
  expect_next({3});
  ASSERT_EQ(lane_.report().under_way, 1u);
  lane_.set_near(std::vector{test_key(3)}, true);
  drive(20 * kReadNs);
  EXPECT_EQ(lane_.report().here, 0u);
  EXPECT_EQ(lane_.report().pages.unused, 2u);
  expect_accounted(lane_.report(), 0);
}

TEST_F(PrefetchTest, EngineMayLookAtWhatIsAheadAndLetItGo) {
  using State = PageAhead::State;
  put_all(2);
  hear_of(2);
  const PageKey key = test_key(1);
  EXPECT_EQ(lane_.look(test_key(9)).state, State::kNone);
  EXPECT_EQ(lane_.look(key).state, State::kNone);
  expect_next({1});
  ASSERT_EQ(lane_.look(key).state, State::kUnderWay);
  lane_.evict({&key, 1});
  drive(20 * kReadNs);
  const PageAhead here = lane_.look(key);
  ASSERT_EQ(here.state, State::kHere) << "what is under way comes";
  EXPECT_EQ(page_put_number({here.payload, kPageBytes}), 101u);
  EXPECT_GT(here.version, 0u);
  lane_.evict({&key, 1});
  EXPECT_EQ(lane_.look(key).state, State::kNone);
  EXPECT_EQ(lane_.report().pages.evicted, 1u);
  expect_accounted(lane_.report(), 0);
  EXPECT_TRUE(is_in_frame(demand_now({1})));
}

TEST_F(PrefetchTest, WhatIsDemandedIsAheadNoMore) {
  put_all(2);
  hear_of(2);
  set_delay(20 * kReadNs);
  expect_next({1});
  const Demand demand = this->demand({1});
  EXPECT_EQ(lane_.look(test_key(1)).state, PageAhead::State::kNone);
}

TEST_F(PrefetchTest, WithdrawnWhileUnderWayIsNotKept) {
  put_all(2);
  const std::vector<PageKey> keys = {test_key(1)};
  lane_.announce(keys);
  lane_.progress();
  ASSERT_EQ(lane_.report().under_way, 1u);
  lane_.withdraw(keys);
  drive(20 * kReadNs);
  EXPECT_EQ(lane_.report().pages.unused, 1u);
  expect_accounted(lane_.report(), 0);
  EXPECT_EQ(lane_.report().taken_places, 0u);
}

TEST_F(PrefetchTest, WhatIsNotDemandedInItsTimeGivesItsPlaceBack) {
  put_all(3);
  hear_of(3);
  bring({1, 2}, 2);
  expect_next({}, 12);
  EXPECT_EQ(lane_.report().here, 2u);
  expect_next({}, 13);
  EXPECT_EQ(lane_.report().here, 0u);
  EXPECT_EQ(lane_.report().taken_places, 0u);
  EXPECT_EQ(lane_.report().pages.unused, 2u);
  EXPECT_EQ(script_.inserted, (std::vector<prefetch::PageNumber>{1, 2}));
  EXPECT_EQ(script_.evicted, (std::vector<prefetch::PageNumber>{1, 2}));
}

// Pages that the last plan no longer names go first, and those that it names stay.
TEST_F(PrefetchTest, LikelierPageTakesThePlaceOfOneThatIsNotNamedAnyMore) {
  put_all(20);
  hear_of(20);
  bring({1, 2, 3, 4, 5, 6, 7, 8});
  for (int round = 0; round < 4; ++round) {
    expect_next({1, 3, 4, 5, 6, 7, 8, 9});
    drive(10 * kReadNs);
  }
  EXPECT_EQ(lane_.report().pages.evicted, 1u);
  EXPECT_EQ(lane_.report().here, 8u);
  EXPECT_TRUE(is_in_frame(demand_now({2})));
  EXPECT_FALSE(is_in_frame(demand_now({1})));
  EXPECT_FALSE(is_in_frame(demand_now({9})));
  expect_accounted(lane_.report(), 0);
}

TEST_F(PrefetchTest, AnnouncedPageWaitsForAPlace) {
  put_all(20);
  hear_of(20);
  bring({1, 2, 3, 4, 5, 6, 7, 8});
  const PageKey key = test_key(9);
  lane_.announce({&key, 1});
  lane_.observe({});
  drive(10 * kReadNs);
  EXPECT_EQ(lane_.report().pages.evicted, 0u);
  EXPECT_EQ(lane_.report().waiting, 1u);
  demand_now({1});
  drive(10 * kReadNs);
  EXPECT_EQ(lane_.report().waiting, 0u);
  EXPECT_EQ(lane_.report().here, 8u);
}

TEST_F(PrefetchTest, WhatTheEngineHoldsIsNotFetchedAhead) {
  put_all(3);
  hear_of(3);
  const std::vector<PageKey> keys = {test_key(1), test_key(2)};
  lane_.set_near(keys, true);
  expect_next({1, 2});
  EXPECT_EQ(lane_.report().pages.begun, 0u);
  EXPECT_EQ(script_.inserted, (std::vector<prefetch::PageNumber>{1, 2}));
  lane_.set_near({&keys[1], 1}, false);
  EXPECT_EQ(script_.evicted, (std::vector<prefetch::PageNumber>{2}));
  bring({2});
  EXPECT_EQ(lane_.report().pages.begun, 1u);
}

TEST_F(PrefetchTest, EventsReachThePrefetcherAsTheyAre) {
  lane_.observe({{{.key = test_key(5),
                   .step = 7,
                   .head = 3,
                   .mass = 0.5f,
                   .score = 2,
                   .similarity = -1,
                   .category = 9,
                   .entropy = 1.5f,
                   .margin = 4,
                   .mark = Mark::kVerifies}}});
  lane_.observe({{{.key = test_key(6), .step = 8}, {.key = test_key(5), .step = 8}}});
  ASSERT_EQ(script_.accesses.size(), 3u);
  const prefetch::Access& access = script_.accesses[0];
  EXPECT_EQ(access.number, 0u);
  EXPECT_EQ(access.step, 7u);
  EXPECT_EQ(access.page, 0u);
  EXPECT_EQ(access.head, 3u);
  EXPECT_EQ(access.mass, 0.5f);
  EXPECT_EQ(access.score, 2);
  EXPECT_EQ(access.similarity, -1);
  EXPECT_EQ(access.category, 9u);
  EXPECT_EQ(access.entropy, 1.5f);
  EXPECT_EQ(access.margin, 4);
  EXPECT_EQ(access.mark, Mark::kVerifies);
  EXPECT_EQ(script_.accesses[1].page, 1u);
  EXPECT_EQ(script_.accesses[2].page, 0u);
  EXPECT_EQ(script_.accesses[2].number, 2u);
  lane_.mark_milestone(test_key(6));
  EXPECT_EQ(script_.milestones, (std::vector<prefetch::PageNumber>{1}));
}

// A page of another length than most is fetched ahead once a demand has shown it.
TEST_F(PrefetchTest, AttentionThatIsObservedIsAveragedOverItsSteps) {
  const std::vector<ObservedAccess> first = {{.key = test_key(0), .step = 1, .mass = 0.5F},
                                             {.key = test_key(1), .step = 1}};
  lane_.observe(first);
  EXPECT_NEAR(lane_.importance(test_key(0)), 0.05, 1e-4);
  EXPECT_EQ(lane_.importance(test_key(1)), 0);
  EXPECT_EQ(lane_.importance(test_key(9)), 0) << "never heard of";
  hear_of(2, 2);
  EXPECT_NEAR(lane_.importance(test_key(0)), 0.05, 1e-4) << "a step without any mass";
  // A step that is told of in two parts is one.
  for (const uint64_t number : {0, 1}) {
    const ObservedAccess next = {.key = test_key(number), .step = 3, .mass = 0.5F};
    lane_.observe({&next, 1});
  }
  EXPECT_NEAR(lane_.importance(test_key(0)), 0.05 + 0.9 * 0.05, 1e-4);
  EXPECT_NEAR(lane_.importance(test_key(1)), 0.05, 1e-4);
}

TEST_F(PrefetchTest, ForgottenPageLeavesNoImportanceToTheNextOfItsNumber) {
  const ObservedAccess first = {.key = test_key(0), .step = 1, .mass = 1};
  lane_.observe({&first, 1});
  for (uint64_t number = 1; lane_.report().forgotten_pages == 0; ++number) {
    const ObservedAccess next = {.key = test_key(number), .step = 2};
    lane_.observe({&next, 1});
    EXPECT_EQ(lane_.importance(test_key(number)), 0);
  }
  EXPECT_EQ(lane_.importance(test_key(0)), 0);
}

TEST_F(PrefetchTest, LengthIsLearnedFromDemands) {
  std::ranges::fill(writer_.frame(0), std::byte{0});
  fill_page(writer_.frame(0).first(kPageBytes / 2), test_key(1), 7);
  Slice half = writer_.slice(0);
  half.bytes /= 2;
  const PutRequest put = {test_key(1), half};
  ASSERT_EQ(writing_->put({&put, 1}, writer_.deadline()).wait()[0].code, Code::kOk);
  hear_of(2);
  expect_next({1});
  drive(10 * kReadNs);
  EXPECT_EQ(lane_.report().pages.failed, 1u);
  PageRequest request = {test_key(1), 0, engine_.slice(0)};
  request.destination.bytes /= 2;
  PageVerdict verdict;
  lane_.fetch({&request, 1}, {&verdict, 1}, engine_.deadline()).wait();
  ASSERT_EQ(verdict.verdict, Verdict::kReady);
  hear_of(2);
  bring({1});
  lane_.fetch({&request, 1}, {&verdict, 1}, engine_.deadline()).wait();
  EXPECT_NE(verdict.landed, request.destination.data);
  // Nor is a copy of one length an answer to who asks for another.
  hear_of(2);
  bring({1});
  request.destination.bytes *= 2;
  lane_.fetch({&request, 1}, {&verdict, 1}, engine_.deadline()).wait();
  EXPECT_EQ(verdict.reason, Reason::kMiss);
  EXPECT_EQ(lane_.report().outdated, 1u);
  expect_accounted(lane_.report(), 0);
}

TEST_F(PrefetchTest, WhoAsksOnlyWhetherAPageIsThereTakesNothingAway) {
  put_all(2);
  hear_of(2);
  bring({1});
  const PageRequest request = {test_key(1), 0, {}};
  PageVerdict verdict;
  lane_.fetch({&request, 1}, {&verdict, 1}, engine_.deadline()).wait();
  EXPECT_EQ(verdict.verdict, Verdict::kReady);
  EXPECT_EQ(verdict.landed, nullptr);
  EXPECT_EQ(lane_.report().here, 1u);
}

TEST_F(PrefetchTest, OptionsThatCannotHoldAreRefusedWithASentence) {
  PrefetchOptions options = small_options();
  options.known_pages = options.scheduler.most_waiting + options.landing_pages;
  EXPECT_FALSE(options.validate());
  const auto lane =
      PrefetchLane::open(*client_, options, std::make_unique<ScriptedPrefetcher>(script_));
  ASSERT_FALSE(lane);
  EXPECT_NE(lane.error().message.find("known_pages"), std::string::npos);
  options = small_options();
  options.scheduler.most_under_way = 129;
  EXPECT_FALSE(options.validate());
  options = small_options();
  options.landing_pages = 0;
  EXPECT_FALSE(options.validate());
  EXPECT_TRUE(PrefetchOptions().validate());
}

}  // namespace
}  // namespace farpage
