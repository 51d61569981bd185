#include "etcd/registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>

#include "base/clock.h"
#include "base/units.h"
#include "etcd/json.h"
#include "tests/etcd/scripted_etcd.h"

namespace farpage::etcd {
namespace {

using testing::HasSubstr;

constexpr uint64_t kTtlS = 1;
const Terms kTerms = {1000, 4096, 2, 0, 77};
const Member kFormer = {node_id("a"), 10, false, 1};
const Member kNow = {node_id("a"), 11, false, 1};
const Member kOther = {node_id("b"), 20, false, 2};

// An etcd of a fleet of the nodes a and b, of whom b lives, and which takes whatever is written and
// goes on telling what a test says.
class FleetOfTwo {
 public:
  explicit FleetOfTwo(std::vector<Member> members) : members_(std::move(members)) {
    Access access;
    access.endpoints = {etcd_.endpoint()};
    access.prefix = kPrefix;
    client_.emplace(std::move(access));
    reader_.emplace(*client_);
    auto begun = Registration::begin(
        *reader_, {{"a", "tcp://127.0.0.1:1", 5, 0}, kTerms, kTtlS, kSecond, hooks()});
    FARPAGE_CHECK(begun.has_value());
    registration_ = std::move(*begun);
  }

  void set_members(std::vector<Member> members) {
    const std::lock_guard lock(mutex_);
    members_ = std::move(members);
  }
  // Waits until it has kept its lease so often, which it does six times in a lease's time.
  void wait_for_rounds(int rounds) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&, until = rounds_ + rounds] { return rounds_ >= until; });
  }
  bool wait_for_epoch() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1),
                             [&] { return !epoch_written_.empty(); });
  }
  void tell_away(const std::vector<NodeId>& nodes) { registration_->tell_away(4, nodes); }
  // What the other one says.
  void set_others_away(std::vector<NodeId> nodes) {
    const std::lock_guard lock(mutex_);
    others_away_ = {kOther.node, 4, std::move(nodes)};
  }
  // The last of what this node has said of others; empty: nothing, or that is over.
  std::string away_written() {
    const std::lock_guard lock(mutex_);
    return away_written_;
  }
  // With its own record.
  bool erases_former_word() {
    const std::lock_guard lock(mutex_);
    return erases_former_word_;
  }
  // Of its own record, as this node has written it.
  int own_revision() {
    const std::lock_guard lock(mutex_);
    return own_revision_;
  }
  // What was written to the epoch's key; empty: nothing was.
  std::string epoch_written() {
    const std::lock_guard lock(mutex_);
    return epoch_written_;
  }

  static std::string encoded(const std::string& key) { return to_base64(kPrefix + key); }

 private:
  static constexpr const char* kPrefix = "/farpage/x/";
  const std::string own_away_ = "away/" + to_hex(kNow.node);

  static Registration::Hooks hooks() {
    return {[](const std::string&) {}, [](bool) {}};
  }
  static std::string range(const std::string& entries, int count = 0) {
    return R"({"response_range":{"kvs":[)" + entries + R"(],"count":")" + std::to_string(count) +
           "\"}}";
  }
  static std::string entry(const std::string& key, const std::string& value, int revision,
                           int lease) {
    return R"({"key":")" + encoded(key) + R"(","value":")" + to_base64(value) +
           R"(","mod_revision":")" + std::to_string(revision) + R"(","lease":")" +
           std::to_string(lease) + "\"}";
  }
  // As if somebody wrote between any two of them, another epoch too.
  std::string transaction(const std::string& responses) {
    return ScriptedEtcd::ok(header() + R"("succeeded":true,"responses":[)" + responses + "]}");
  }
  std::string header() {
    return R"({"header":{"cluster_id":"1","revision":")" + std::to_string(++revision_) + "\"},";
  }

  std::string answer(const ScriptedEtcd::Request& request) {
    const std::lock_guard lock(mutex_);
    const std::string lease = R"({"header":{"cluster_id":"1","revision":"50"},"ID":"9","TTL":"1"})";
    if (request.path == "/v3/lease/grant") return ScriptedEtcd::ok(lease);
    if (request.path == "/v3/lease/keepalive") {
      ++rounds_;
      changed_.notify_all();
      return ScriptedEtcd::ok(R"({"result":)" + lease + "}\n");
    }
    if (request.body.find(R"("request_put":{"key":")" + encoded("epoch")) != std::string::npos) {
      if (epoch_written_.empty()) epoch_written_ = request.body;
      changed_.notify_all();
      return transaction(R"({"response_put":{}})");
    }
    if (request.body.find(R"("request_put":{"key":")" + encoded("nodes/a")) != std::string::npos) {
      enrolled_ = true;
      own_revision_ = revision_ + 1;
      const std::string own = R"("request_delete_range":{"key":")" + encoded(own_away_);
      erases_former_word_ = request.body.find(own) != std::string::npos;
      return transaction(
          R"({"response_put":{}},{"response_delete_range":{}},{"response_delete_range":{}})");
    }
    const std::string own_away = encoded(own_away_);
    if (request.body.find(R"("request_put":{"key":")" + own_away) != std::string::npos) {
      away_written_ = request.body;
      return transaction(R"({"response_put":{}})");
    }
    if (request.body.find(R"("request_delete_range":{"key":")" + own_away) != std::string::npos) {
      away_written_.clear();
      return transaction(R"({"response_delete_range":{}})");
    }
    if (request.body.find(R"("request_range":{"key":")" + encoded("away/")) != std::string::npos) {
      std::string said = entry("away/" + to_hex(kNow.node),
                               encode(AwayRecord{kNow.node, 4, {kOther.node}}), 60, 9);
      if (!others_away_.nodes.empty()) {
        said += "," + entry("away/" + to_hex(kOther.node), encode(others_away_), 61, 8);
      }
      return transaction(range(said));
    }
    const std::string terms = range(entry("terms", encode(kTerms), 1, 0), 1);
    if (request.body.find(encoded("epoch")) == std::string::npos) return transaction(terms);
    const Epoch epoch = {4, members_.size() > 1 ? 2u : 1u, 0, 4096, members_};
    std::string nodes = entry("nodes/b", encode(NodeRecord{"b", "tcp://127.0.0.1:2", 6}), 3, 8);
    if (enrolled_) {
      nodes +=
          "," + entry("nodes/a", encode(NodeRecord{"a", "tcp://127.0.0.1:1", 5}), own_revision_, 9);
    }
    const std::string members = range(entry("epoch", encode(epoch), 60, 0), 1);
    const std::string of_nodes =
        range("") + "," + range(nodes, enrolled_ ? 2 : 1) + "," + range("");
    if (request.body.find("min_mod_revision") == std::string::npos) {
      return transaction(terms + "," + members + "," + of_nodes);
    }
    return ScriptedEtcd::ok(header() + R"("responses":[)" + terms + "," + of_nodes + "," + members +
                            "]}");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Member> members_;
  int revision_ = 49;
  int own_revision_ = 0;  // of this node's record
  bool enrolled_ = false;
  bool erases_former_word_ = false;
  int rounds_ = 0;
  std::string epoch_written_;
  std::string away_written_;
  AwayRecord others_away_;
  ScriptedEtcd etcd_{[this](const auto& request) { return answer(request); }};
  std::optional<Client> client_;
  std::optional<FleetReader> reader_;
  std::unique_ptr<Registration> registration_;
};

constexpr int kRoundsPerLease = 6;

TEST(Registration, ItsRunBeforeIsLeftOutIfTheNextHasNotJoinedForALease) {
  FleetOfTwo fleet({kFormer, kOther});
  fleet.wait_for_rounds(kRoundsPerLease / 2);
  EXPECT_EQ(fleet.epoch_written(), "") << "it may join any moment";
  ASSERT_TRUE(fleet.wait_for_epoch());
  const std::string written = fleet.epoch_written();
  EXPECT_THAT(written, HasSubstr(to_base64(encode(Epoch{5, 1, 0, 4096, {kOther}}))));
  // By this process alone, and only in the place of what it has read.
  EXPECT_THAT(written, HasSubstr(FleetOfTwo::encoded("epoch") +
                                 R"(","target":"MOD","result":"EQUAL","mod_revision":"60")"));
  EXPECT_THAT(written, HasSubstr(FleetOfTwo::encoded("nodes/a") +
                                 R"(","target":"MOD","result":"EQUAL","mod_revision":")" +
                                 std::to_string(fleet.own_revision()) + "\""));
}

TEST(Registration, RunThatHasJoinedStays) {
  FleetOfTwo fleet({kFormer, kOther});
  fleet.set_members({kOther, kNow});
  fleet.wait_for_rounds(2 * kRoundsPerLease);
  EXPECT_EQ(fleet.epoch_written(), "");
}

TEST(Registration, RunBeforeThatIsTheOnlyMemberStays) {
  FleetOfTwo fleet({kFormer});
  fleet.wait_for_rounds(2 * kRoundsPerLease);
  EXPECT_EQ(fleet.epoch_written(), "");
}

TEST(Registration, MemberThatIsNotHeardOfIsLeftOut) {
  FleetOfTwo fleet({kOther});
  fleet.set_members({kOther, kNow, {node_id("c"), 30, false, 3}});
  ASSERT_TRUE(fleet.wait_for_epoch());
  EXPECT_THAT(fleet.epoch_written(),
              HasSubstr(to_base64(encode(Epoch{5, 2, 0, 4096, {kOther, kNow}}))));
}

// It lives, as etcd hears, and is of no use to anybody.
TEST(Registration, MemberThatNobodyReachesIsLeftOut) {
  FleetOfTwo fleet({kOther});
  fleet.set_members({kNow, kOther});
  fleet.tell_away({kOther.node});
  ASSERT_TRUE(fleet.wait_for_epoch());
  EXPECT_THAT(fleet.epoch_written(), HasSubstr(to_base64(encode(Epoch{5, 1, 0, 4096, {kNow}}))));
  EXPECT_THAT(fleet.away_written(),
              HasSubstr(to_base64(encode(AwayRecord{kNow.node, 4, {kOther.node}}))));
  EXPECT_THAT(fleet.away_written(), HasSubstr(R"("lease":"9")")) << "it ends with this process";
  fleet.tell_away({});
  fleet.wait_for_rounds(2);
  EXPECT_EQ(fleet.away_written(), "");
}

// Of its run before, whose lease may last: this one has missed nobody yet.
TEST(Registration, WordOfItsRunBeforeGoesWithItsRecord) {
  FleetOfTwo fleet({kNow, kOther});
  fleet.wait_for_rounds(1);
  EXPECT_TRUE(fleet.erases_former_word());
}

TEST(Registration, OfTwoThatDoNotReachEachOtherTheOneThatJoinedFirstStays) {
  FleetOfTwo fleet({kOther});
  fleet.set_members({kOther, kNow});
  fleet.set_others_away({kNow.node});
  fleet.tell_away({kOther.node});
  ASSERT_TRUE(fleet.wait_for_epoch());
  EXPECT_THAT(fleet.epoch_written(), HasSubstr(to_base64(encode(Epoch{5, 1, 0, 4096, {kOther}}))));
}

}  // namespace
}  // namespace farpage::etcd
