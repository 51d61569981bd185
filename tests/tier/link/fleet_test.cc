#include "tests/tier/fleet.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <map>

namespace farpage {
namespace {

using fault::FaultKind;

TEST_F(FleetTest, PagesArePutAtTheirPrimariesAndReadBack) {
  std::array<int, 3> primaries{};
  for (uint64_t number = 0; number < 30; ++number) {
    const PageKey key = test_key(number);
    ++primaries[nodes_of(key)[0]];
    ASSERT_EQ(engine().put(key, number).code, Code::kOk) << number;
    const PageVerdict verdict = engine().fetch(key);
    ASSERT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
    EXPECT_EQ(engine().put_number_of(key), number);
    EXPECT_EQ(verdict.attempts, 1);
    EXPECT_EQ(verdict.replicas, 1);
    EXPECT_EQ(verdict.landed, engine().slice(0).data);
    EXPECT_GT(verdict.took_ns, 0u);
  }
  EXPECT_TRUE(std::ranges::all_of(primaries, [](int count) { return count > 0; }));
}

TEST_F(FleetTest, MissIsSaidByEveryReplica) {
  const PageVerdict verdict = engine().fetch(test_key(1));
  EXPECT_EQ(verdict.reason, Reason::kMiss);
  EXPECT_EQ(verdict.replicas, 2);
  EXPECT_EQ(engine().lane().stats().next_replicas, 1u);
}

TEST_F(FleetTest, CorruptPageIsReadFromTheNextReplicaAndReportedOnce) {
  const PageKey key = test_key(1);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  for (int i = 0; i < 2; ++i) {
    inject(FaultKind::kFlippedPayload, i == 0 ? 2 : 3);  // cold, and with a location cached
    const PageVerdict verdict = engine().fetch(key);
    ASSERT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
    EXPECT_EQ(engine().put_number_of(key), 1u);
    EXPECT_EQ(verdict.replicas, 2);
    run_for(kMillisecond);
    EXPECT_EQ(metric("farpage_client_reports_total"), 1);
    inject(FaultKind::kFlippedPayload, 0);
    ASSERT_EQ(engine().fetch(key).verdict, Verdict::kReady);  // caches the location at the primary
  }
  EXPECT_EQ(faulty_.injected().of(FaultKind::kFlippedPayload), 5u);
}

TEST_F(FleetTest, RemovedPageIsAMissEverywhere) {
  const PageKey key = test_key(1);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  ASSERT_EQ(client_->remove({&key, 1}, engine().deadline()).wait(), 1u);
  EXPECT_EQ(engine().fetch(key).reason, Reason::kMiss);
}

TEST_F(FleetTest, PageOfANodeWithoutPowerComesFromTheOther) {
  const PageKey key = test_key(1);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  ASSERT_EQ(engine().fetch(key).verdict, Verdict::kReady);
  cluster_.end_node(NodeEnd::kPowerLost, nodes_of(key)[0]);
  const uint64_t before = now();
  const PageVerdict verdict = engine().fetch(key, 0, 10 * kMillisecond);
  ASSERT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(engine().put_number_of(key), 1u);
  EXPECT_EQ(verdict.replicas, 2);
  EXPECT_LE(now() - before, 3 * kMillisecond);  // `read_window`, and the read
  run_for(2 * kView);
  const PageVerdict later = engine().fetch(key, 0, kMillisecond);
  EXPECT_EQ(later.verdict, Verdict::kReady);
  EXPECT_EQ(later.replicas, 1);  // its lease has ended: it is not asked
}

TEST_F(FleetTest, PutToAPrimaryWithoutPowerFailsAndTheOthersGoOn) {
  const size_t dead = 0;
  cluster_.end_node(NodeEnd::kPowerLost, dead);
  run_for(2 * kView);
  const uint64_t start = now();
  std::vector<PutRequest> puts;
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < 12; ++number) {
    keys.push_back(test_key(number));
    fill_page(engine().frame(number), keys.back(), number);
    puts.push_back({keys.back(), engine().slice(number)});
  }
  Put put = client_->put(puts, start + 100 * kMillisecond);
  const auto results = put.wait();
  int stored = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto nodes = nodes_of(keys[i]);
    if (nodes[0] == dead) {
      EXPECT_EQ(results[i].code, Code::kUnavailable) << i;
    }
    if (std::ranges::find(nodes, dead) != nodes.end()) {
      EXPECT_NE(results[i].code, Code::kOk) << i;  // nobody acknowledges without all of them
    } else {
      EXPECT_EQ(results[i].code, Code::kOk) << code_name(results[i].code);
      ++stored;
    }
  }
  EXPECT_GT(stored, 0);
  EXPECT_LE(now(), start + 100 * kMillisecond);
  EXPECT_NE(put.why().find(fmt::format("{:016x}", node_id("n0"))), std::string::npos) << put.why();
}

TEST_F(FleetTest, NobodyToAskIsUnreachableAtOnce) {
  for (size_t node = 0; node < 3; ++node) cluster_.end_node(NodeEnd::kPowerLost, node);
  run_for(2 * kView);
  const uint64_t before = now();
  EXPECT_EQ(engine().fetch(test_key(1)).reason, Reason::kUnreachable);
  EXPECT_EQ(now(), before);
}

TEST_F(FleetTest, DeadlinesOfZeroInThePastAndOfAnHour) {
  const PageKey key = test_key(1);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  EXPECT_EQ(engine().fetch(key, 0, 0).reason, Reason::kStalled);
  const PageRequest request = {key, 0, engine().slice(0)};
  PageVerdict verdict;
  engine().lane().fetch({&request, 1}, {&verdict, 1}, 0).wait();
  EXPECT_EQ(verdict.reason, Reason::kStalled);
  EXPECT_EQ(verdict.place, Place::kReleased);
  EXPECT_EQ(engine().fetch(key, 0, 3600 * kSecond).verdict, Verdict::kReady);
}

TEST_F(FleetTest, BadListsAreRefusedInASentence) {
  const auto why = [&](const Fleet& fleet) {
    const auto refused = connect({}, fleet);
    EXPECT_FALSE(refused);
    return refused ? std::string() : refused.error().message;
  };
  Fleet fleet = fleet_;
  fleet.list.replicas = 4;
  EXPECT_NE(why(fleet).find("4 replicas on 3 nodes"), std::string::npos);
  fleet = fleet_;
  fleet.list.members[1] = fleet.list.members[0];
  EXPECT_NE(why(fleet).find("twice"), std::string::npos);
  fleet = fleet_;
  fleet.list.page_bytes = 1024;
  EXPECT_NE(why(fleet).find("another length of pages"), std::string::npos);
  fleet = fleet_;
  fleet.list.replicas = 1;
  EXPECT_NE(why(fleet).find("another list of nodes"), std::string::npos);
}

TEST_F(RegisteredFleet, PagesArePutAndReadBack) {
  for (uint64_t number = 0; number < 20; ++number) {
    const PageKey key = test_key(number);
    ASSERT_EQ(engine().put(key, number).code, Code::kOk) << number;
    ASSERT_EQ(engine().fetch(key).verdict, Verdict::kReady);
    EXPECT_EQ(engine().put_number_of(key), number);
  }
}

TEST_F(RegisteredFleet, NodeThatIsLeftOutIsReadNoMore) {
  const PageKey key = test_key(1);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  const size_t dead = nodes_of(key)[0];
  cluster_.end_node(NodeEnd::kKilled, dead);  // its memory can still be read
  ASSERT_TRUE(cluster_.world().wait_until(
      now() + 2 * kSecond, [&] { return cluster_.epochs()->current().epoch.members.size() == 2; }));
  run_for(10 * kView);
  ASSERT_EQ(engine().put(key, 2).code, Code::kOk);
  const PageVerdict verdict = engine().fetch(key);
  ASSERT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(engine().put_number_of(key), 2u);
}

// Those that wait when the epoch ends are refused, and go on. One that is being replicated is
// aborted: it may have been read.
TEST_F(RegisteredFleet, PutsWhosePrimaryStaysGoOnIntoTheNextEpoch) {
  const PageKey key = key_with_primary(0);
  const size_t other = nodes_of(key)[1] == 1 ? 2 : 1;
  cluster_.set_control_delay(500 * kMicrosecond, 2 * kMillisecond);
  cluster_.end_node(NodeEnd::kPowerLost, other);
  std::vector<Put> puts;
  uint64_t number = 0;
  const auto put_for = [&](uint64_t until_ns) {
    while (now() < until_ns) {
      fill_page(engine().frame(0), key, ++number);
      const PutRequest request = {key, engine().slice(0)};
      puts.push_back(client_->put({&request, 1}, now() + 2 * kSecond));
      run_for(kMillisecond);
    }
  };
  while (cluster_.epochs()->current().epoch.members.size() == 3 && number < 1000) {
    put_for(now() + 1);
  }
  ASSERT_EQ(cluster_.epochs()->current().epoch.members.size(), 2u);
  put_for(now() + kView);
  Version newest = 0;
  std::map<Version, uint64_t> numbers;
  uint64_t aborted = 0;
  for (size_t i = 0; i < puts.size(); ++i) {
    const PutResult result = puts[i].wait()[0];
    aborted += result.code == Code::kUnavailable ? 1 : 0;
    if (result.code == Code::kUnavailable) continue;
    ASSERT_EQ(result.code, Code::kOk) << i << ": " << code_name(result.code);
    EXPECT_TRUE(numbers.emplace(result.version, i + 1).second) << "acknowledged twice";
    newest = std::max(newest, result.version);
  }
  EXPECT_EQ(aborted, 1u);  // of one key no two are replicated at one time
  const PageVerdict verdict = engine().fetch(key);
  ASSERT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(verdict.version, newest);
  EXPECT_EQ(engine().put_number_of(key), numbers[newest]);
}

// A node joins while the page is on its way to the one that was its primary until then.
TEST_F(RegisteredFleet, PutThatAnotherEpochOvertakesIsNotInvalid) {
  const size_t joins = 2;
  const PageKey key = key_with_primary(joins);
  cluster_.end_node(NodeEnd::kPowerLost, joins);
  ASSERT_TRUE(cluster_.world().wait_until(
      now() + 2 * kSecond, [&] { return cluster_.epochs()->current().epoch.members.size() == 2; }));
  run_for(10 * kView);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  cluster_.start_node(joins);
  ASSERT_TRUE(cluster_.world().wait_until(
      now() + 2 * kSecond, [&] { return cluster_.epochs()->current().epoch.members.size() == 3; }));
  sim::SimOptions slow;
  slow.delay_min_ns = slow.delay_max_ns = kView;
  cluster_.set_network(slow);
  EXPECT_EQ(engine().put(key, 2).code, Code::kUnavailable);
}

// Puts and removes open `view_lease` after the epoch was learned: a client without an answer by
// then asked for nothing.
TEST_F(RegisteredFleet, RemoveWhosePatienceEndsBeforeItMayBeginRemovesNothing) {
  const PageKey key = key_with_primary(0);
  const PutResult put = engine().put(key, 1);
  ASSERT_EQ(put.code, Code::kOk);
  cluster_.end_node(NodeEnd::kPowerLost, nodes_of(key)[1] == 1 ? 2 : 1);  // none of the key's
  ASSERT_TRUE(cluster_.world().wait_until(
      now() + 2 * kSecond, [&] { return cluster_.epochs()->current().epoch.members.size() == 2; }));
  const uint64_t number = cluster_.epochs()->current().epoch.number;
  ASSERT_TRUE(cluster_.world().wait_until(now() + 5 * kView / 8,
                                          [&] { return client_->epoch() == number; }));
  const auto removed = client_->remove({&key, 1}, now() + 4 * kMillisecond).wait();
  ASSERT_FALSE(removed.has_value());
  EXPECT_EQ(removed.error().code, Code::kUnavailable) << removed.error().message;
  run_for(10 * kView);
  const PageVerdict verdict = engine().fetch(key);
  ASSERT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(verdict.version, put.version);
}

// Its answer to a lane that was asked for while it was a member is taken up by nobody.
TEST_F(RegisteredFleet, LaneOfANodeThatIsNoMemberKeepsNoFetchBusy) {
  ASSERT_EQ(engine().fetch(test_key(1)).reason, Reason::kMiss);
  const size_t out = 0;
  const auto reach_anew = [&] {
    cluster_.cut_links();
    run_for(kView);
  };
  reach_anew();
  cluster_.part(cluster_.client_host(0), cluster_.node_host(out));
  engine().fetch(test_key(1), 0, kMillisecond);
  cluster_.part(cluster_.node_host(out), cluster_.register_host());
  ASSERT_TRUE(cluster_.world().wait_until(
      now() + 2 * kSecond, [&] { return cluster_.epochs()->current().epoch.members.size() == 2; }));
  cluster_.heal(cluster_.client_host(0), cluster_.node_host(out));
  run_for(kView);
  ASSERT_EQ(engine().fetch(test_key(1)).reason, Reason::kMiss);
  // The members are reached anew, and then they are silent: there are views, and no lanes.
  reach_anew();
  for (size_t node = 0; node < 3; ++node) {
    cluster_.part(cluster_.client_host(0), cluster_.node_host(node));
  }
  const uint64_t start = now();
  EXPECT_EQ(engine().fetch(test_key(1), 0, kMillisecond).verdict, Verdict::kRecompute);
  EXPECT_EQ(now(), start + kMillisecond);
}

class RegisteredNode : public FleetTest {
 protected:
  RegisteredNode() : FleetTest(options()) {}
  static SimClusterOptions options() {
    SimClusterOptions options = registered_nodes();
    options.nodes = options.replicas = 1;
    return options;
  }
  // Until the client has read it; the node still renews its lease.
  void name_another_run() {
    cluster_.part(cluster_.node_host(0), cluster_.register_host());
    Epoch next = epoch();
    ++next.number;
    ++next.members[0].incarnation;
    auto& runtime = cluster_.client_fabric(0).runtime();
    const auto access = cluster_.epochs()->access(cluster_.client_host(0), runtime);
    access->replace(next.number - 1, next, [](const Result<void>& begun) { EXPECT_TRUE(begun); });
    while (engine().client().epoch() != next.number) run_for(kMillisecond / 10);
  }
};

// Not in the turn in which the client hears of the epoch either, which may be the one in which what
// it posts is copied.
TEST_F(RegisteredNode, RunThatTheEpochDoesNotNameIsNotAskedAtAll) {
  const PageKey key = test_key(1);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  ASSERT_EQ(engine().fetch(key).verdict, Verdict::kReady);
  name_another_run();
  const uint64_t before = engine().lane().stats().operations;
  const PageRequest request = {key, 0, engine().slice(0)};
  PageVerdict verdict;
  Fetch fetch = engine().lane().fetch({&request, 1}, {&verdict, 1}, engine().deadline(kView));
  EXPECT_EQ(engine().lane().stats().operations, before);
  fetch.wait();
  EXPECT_EQ(verdict.reason, Reason::kUnreachable);
}

// Nodes tell it of their views, and of the epoch.
TEST_F(RegisteredFleet, ClientThatDoesNotReachTheRegisterGoesOn) {
  const PageKey key = test_key(1);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  cluster_.part(cluster_.client_host(0), cluster_.register_host());
  const uint64_t before = engine().client().epoch();
  cluster_.end_node(NodeEnd::kPowerLost, nodes_of(key)[1]);
  const uint64_t end_ns = cluster_.now_ns() + 2 * kSecond;
  while (cluster_.now_ns() < end_ns) {
    run_for(kView / 4);
    ASSERT_TRUE(engine().client().reachable());
  }
  EXPECT_GT(engine().client().epoch(), before);
  EXPECT_EQ(engine().fetch(key).verdict, Verdict::kReady);
  EXPECT_EQ(engine().put(key, 2).code, Code::kOk);
}

// Where nobody can read the register, no view is left when `view_lease` has passed.
TEST_F(RegisteredFleet, ViewEndsWithoutTheRegister) {
  const PageKey key = test_key(1);
  ASSERT_EQ(engine().put(key, 1).code, Code::kOk);
  cluster_.epochs()->set_loss(1);
  EXPECT_EQ(engine().fetch(key).verdict, Verdict::kReady);
  run_for(kView);
  EXPECT_EQ(engine().fetch(key).reason, Reason::kUnreachable);
  cluster_.epochs()->set_loss(0);
  run_for(10 * kView);
  EXPECT_EQ(engine().fetch(key).verdict, Verdict::kReady);
}

// A page's verdicts between the events of the world, so that each is seen when it is given.
struct Load {
  uint64_t fetches = 0;
  uint64_t ready = 0;
  std::vector<uint64_t> took_ns;
};

// Fetches of one page each, one after the other, for so long; `most_ns` is the deadline of each.
Load fetch_for(SimCluster& cluster, Engine& engine, uint64_t keys, uint64_t duration_ns,
               uint64_t most_ns, const FetchOptions& options = {}) {
  Load load;
  const uint64_t end = cluster.now_ns() + duration_ns;
  while (cluster.now_ns() < end) {
    const uint64_t number = load.fetches++ % keys;
    const PageRequest request = {test_key(number), 0, engine.slice(0)};
    PageVerdict verdict;
    const uint64_t start = cluster.now_ns();
    {
      Fetch fetch = engine.lane().fetch({&request, 1}, {&verdict, 1}, start + most_ns, options);
      while (!fetch.done()) {
        cluster.world().run_until(cluster.now_ns() + kMicrosecond);
        engine.lane().progress();
        EXPECT_TRUE(fetch.done() || cluster.now_ns() < start + most_ns) << "I3";
      }
      load.took_ns.push_back(cluster.now_ns() - start);
      while (!fetch.released()) {
        cluster.world().run_until(cluster.now_ns() + kMicrosecond);
        engine.lane().progress();
      }
    }
    EXPECT_LE(verdict.took_ns, most_ns);
    load.ready += verdict.verdict == Verdict::kReady;
  }
  return load;
}

TEST_F(RegisteredFleet, VerdictsComeByTheirDeadlinesWhileANodeDies) {
  constexpr uint64_t kKeys = 30;
  for (uint64_t number = 0; number < kKeys; ++number) {
    ASSERT_EQ(engine().put(test_key(number), number).code, Code::kOk);
  }
  constexpr uint64_t kDeadline = kMillisecond;
  fetch_for(cluster_, engine(), kKeys, 5 * kMillisecond, kDeadline);  // warms up
  const Load before = fetch_for(cluster_, engine(), kKeys, 20 * kMillisecond, kDeadline);
  cluster_.end_node(NodeEnd::kPowerLost, 1);
  const Load during = fetch_for(cluster_, engine(), kKeys, 2 * kView, kDeadline);
  const Load after = fetch_for(cluster_, engine(), kKeys, 20 * kMillisecond, kDeadline);
  EXPECT_EQ(before.ready, before.fetches);
  EXPECT_EQ(after.ready, after.fetches);
  EXPECT_EQ(engine().lane().stats().late_verdicts, 0u);
  const uint64_t p99 = quantile(before.took_ns, 0.99);
  const uint64_t p99_after = quantile(after.took_ns, 0.99);
  std::printf("p99 before %lu ns, 2 V after the death %lu ns; ready meanwhile %lu of %lu\n", p99,
              p99_after, during.ready, during.fetches);
  EXPECT_LE(p99_after, p99 * 3 / 2);
}

}  // namespace
}  // namespace farpage
