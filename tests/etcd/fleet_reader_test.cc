#include "etcd/fleet_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "tests/etcd/stored_etcd.h"

namespace farpage::etcd {
namespace {

const std::string kPrefix = "/farpage/x/";
const Terms kTerms = {1000, 4096, 1, 0, 77};

std::string name_of(uint64_t node) {
  return "n" + std::to_string(node);
}

// A fleet of some nodes, of which all live and have confirmed.
class FleetReaders : public testing::Test {
 protected:
  FleetReaders() {
    etcd_.put(terms_key(kPrefix), encode(kTerms));
    put_epoch(4);
    for (uint64_t node = 0; node < kNodes; ++node) {
      etcd_.put(node_key(kPrefix, name_of(node)), encode(NodeRecord{"", "tcp://127.0.0.1:1", 5}));
      confirm(node, 4);
    }
  }

  void put_epoch(uint64_t number) {
    Epoch epoch = {number, 1, 0, 4096, {}};
    for (uint64_t node = 0; node < kNodes; ++node) {
      epoch.members.push_back({node_id(name_of(node)), 10, false, static_cast<uint16_t>(node)});
    }
    etcd_.put(epoch_key(kPrefix), encode(epoch));
  }
  void confirm(uint64_t node, uint64_t number) {
    etcd_.put(confirmed_key(kPrefix, node_id(name_of(node))), encode_confirmed(number));
  }
  std::shared_ptr<const FleetRecord> read() {
    auto fleet = reader_.read(boottime_clock().now_ns() + kMinute);
    EXPECT_TRUE(fleet) << fleet.error().message;
    return fleet ? *fleet : std::make_shared<const FleetRecord>();
  }
  size_t records_read() {
    size_t records = 0;
    for (const auto& read : etcd_.take_reads()) records += read.records;
    return records;
  }
  // What a reader finds that has never read before.
  void expect_all_is_known() {
    FleetReader anew(client_);
    const auto whole = anew.read(boottime_clock().now_ns() + kMinute);
    ASSERT_TRUE(whole) << whole.error().message;
    const auto known = read();
    EXPECT_EQ(known->terms, (*whole)->terms);
    EXPECT_EQ(known->registered.epoch, (*whole)->registered.epoch);
    EXPECT_EQ(known->epoch_revision, (*whole)->epoch_revision);
    EXPECT_EQ(known->registered.confirmed, (*whole)->registered.confirmed);
    EXPECT_EQ(known->registered.silent, (*whole)->registered.silent);
    EXPECT_EQ(known->drained, (*whole)->drained);
    EXPECT_EQ(known->confirmations, (*whole)->confirmations);
    EXPECT_EQ(known->revision, (*whole)->revision);
    ASSERT_EQ(known->nodes.size(), (*whole)->nodes.size());
    for (size_t i = 0; i < known->nodes.size(); ++i) {
      EXPECT_EQ(known->nodes[i].name, (*whole)->nodes[i].name);
      EXPECT_EQ(known->nodes[i].address, (*whole)->nodes[i].address);
      EXPECT_EQ(known->nodes[i].revision, (*whole)->nodes[i].revision);
    }
  }

  static constexpr uint64_t kMinute = 60 * kSecond;
  static constexpr uint64_t kNodes = 20;
  static constexpr size_t kAll = 2 + 2 * kNodes;  // records
  StoredEtcd etcd_;
  Client client_{etcd_.access(kPrefix)};
  FleetReader reader_{client_};
};

TEST_F(FleetReaders, TermsAreAllThatIsReadWhileNothingIsWritten) {
  const auto first = read();
  EXPECT_EQ(first->registered.confirmed.size(), kNodes);
  EXPECT_EQ(records_read(), kAll);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(read(), first);
  const auto reads = etcd_.take_reads();
  ASSERT_EQ(reads.size(), 5u);
  for (const auto& each : reads) {
    EXPECT_EQ(each.keys, std::vector<std::string>{terms_key(kPrefix)});
  }
}

TEST_F(FleetReaders, WhatWasWrittenSinceIsAllThatComes) {
  put_epoch(5);
  (void)read();
  EXPECT_EQ(records_read(), kAll);
  for (uint64_t node = 0; node < kNodes; ++node) {
    confirm(node, 5);
    EXPECT_EQ(read()->registered.confirmed.size(), node + 1);
    EXPECT_EQ(records_read(), 3u);  // with the terms, twice
  }
  EXPECT_TRUE(read()->registered.all_confirmed());
  etcd_.put("/farpage/y/epoch", "another fleet's");
  EXPECT_TRUE(read()->registered.all_confirmed());
  etcd_.put(node_key(kPrefix, "n3"), encode(NodeRecord{"", "tcp://127.0.0.2:1", 5}));
  EXPECT_EQ(read()->find(node_id("n3"))->address, "tcp://127.0.0.2:1");
  etcd_.put(drained_key(kPrefix, "n3"), "");
  EXPECT_EQ(read()->drained, std::vector<std::string>{"n3"});
  expect_all_is_known();
}

TEST_F(FleetReaders, EpochComesWithWhatWasWrittenSince) {
  (void)read();
  put_epoch(5);
  confirm(3, 5);
  (void)records_read();
  const auto fleet = read();
  EXPECT_EQ(fleet->registered.epoch.number, 5u);
  EXPECT_EQ(fleet->registered.confirmed, std::vector<NodeId>{node_id("n3")});
  EXPECT_EQ(records_read(), 4u);  // the terms twice
  expect_all_is_known();
}

TEST_F(FleetReaders, EpochThatWasErasedIsGone) {
  (void)read();
  etcd_.erase(epoch_key(kPrefix));
  EXPECT_EQ(read()->registered.epoch.number, 0u);
  expect_all_is_known();
}

TEST_F(FleetReaders, NamesAreSortedWhateverCameFirst) {
  etcd_.put(drained_key(kPrefix, "n5"), "");
  (void)read();
  etcd_.put(drained_key(kPrefix, "n13"), "");
  etcd_.put(node_key(kPrefix, "a"), encode(NodeRecord{"", "tcp://127.0.0.1:1", 5}));
  const auto fleet = read();
  EXPECT_EQ(fleet->drained, (std::vector<std::string>{"n13", "n5"}));
  EXPECT_EQ(fleet->nodes.front().name, "a");
}

TEST_F(FleetReaders, ErasedRecordIsGone) {
  (void)read();
  etcd_.erase(node_key(kPrefix, "n3"));
  EXPECT_EQ(read()->registered.silent, std::vector<NodeId>{node_id("n3")});
  etcd_.erase(node_key(kPrefix, "n4"));
  etcd_.put(node_key(kPrefix, "m4"), encode(NodeRecord{"", "tcp://127.0.0.1:1", 5}));
  const auto fleet = read();  // as many as before
  EXPECT_EQ(fleet->find(node_id("n4")), nullptr);
  EXPECT_NE(fleet->find(node_id("m4")), nullptr);
  etcd_.put(drained_key(kPrefix, "n5"), "");
  (void)read();
  etcd_.erase(drained_key(kPrefix, "n5"));
  EXPECT_TRUE(read()->drained.empty());
  expect_all_is_known();
}

// What it answers was true between call and answer, and a write after the question may be missing.
TEST_F(FleetReaders, WriteBetweenTwoCallsIsSeen) {
  (void)read();
  confirm(0, 3);
  etcd_.after_next_read([this] { put_epoch(5); });  // behind the terms, before the rest
  EXPECT_EQ(read()->registered.epoch.number, 5u);
  etcd_.after_next_read([this] { put_epoch(6); });
  EXPECT_EQ(read()->registered.epoch.number, 5u);
  EXPECT_EQ(read()->registered.epoch.number, 6u);
}

// An etcd that was made anew counts its revisions anew.
TEST_F(FleetReaders, OtherTermsBringEverythingWhateverTheRevisionSays) {
  const uint64_t revision = read()->revision;
  etcd_.put(terms_key(kPrefix), encode(Terms{1000, 4096, 1, 0, 78}));
  etcd_.erase(node_key(kPrefix, "n3"));
  etcd_.set_revision(revision);
  EXPECT_EQ(read()->terms->id, 78u);
  expect_all_is_known();
}

TEST_F(FleetReaders, TermsThatChangeBetweenTwoCallsBringEverything) {
  (void)read();
  confirm(0, 3);
  etcd_.after_next_read([this] {
    etcd_.put(terms_key(kPrefix), encode(Terms{1000, 4096, 1, 0, 78}));
    etcd_.erase(node_key(kPrefix, "n3"));
  });
  EXPECT_EQ(read()->terms->id, 78u);
  expect_all_is_known();
}

// A backup that was restored has the same terms, and another past: n3 confirmed before it was made,
// and never in it.
TEST_F(FleetReaders, AnswerThatWasNotBelievedBringsEverything) {
  confirm(3, 5);
  put_epoch(5);
  etcd_.set_revision(200);
  etcd_.put("/elsewhere", "");
  EXPECT_EQ(read()->registered.confirmed, std::vector<NodeId>{node_id("n3")});
  etcd_.set_revision(120);
  confirm(3, 4);
  EXPECT_EQ(reader_.read(boottime_clock().now_ns() + kMinute).error().code, Code::kUnavailable);
  etcd_.set_revision(300);
  etcd_.put("/elsewhere", "");
  EXPECT_TRUE(read()->registered.confirmed.empty());
  expect_all_is_known();
  (void)etcd_.take_reads();
  confirm(5, 5);
  EXPECT_EQ(read()->registered.confirmed, std::vector<NodeId>{node_id("n5")});
  EXPECT_EQ(records_read(), 3u) << "once is enough";
}

TEST_F(FleetReaders, EachOfSeveralThreadsSeesWhatWasWrittenBefore) {
  std::atomic<uint64_t> written{4};
  std::atomic<bool> ends = false;
  std::atomic<int> behind{0};
  std::atomic<int> reading{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      ++reading;
      while (!ends) {
        const uint64_t at_least = written;
        const auto fleet = reader_.read(boottime_clock().now_ns() + kMinute);
        if (!fleet || (*fleet)->registered.epoch.number < at_least) ++behind;
      }
    });
  }
  while (reading < 3) std::this_thread::yield();
  for (uint64_t epoch = 5; epoch < 60; ++epoch) {
    put_epoch(epoch);
    written = epoch;
    confirm(epoch % kNodes, epoch);
    EXPECT_EQ(read()->registered.confirmed.size(), 1u);
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(behind, 0);
  expect_all_is_known();
}

TEST_F(FleetReaders, FleetThatNobodyHasBegunIsReadInFullEachTime) {
  etcd_.erase(terms_key(kPrefix));
  etcd_.erase(epoch_key(kPrefix));
  EXPECT_FALSE(read()->terms);
  EXPECT_FALSE(read()->terms);
  etcd_.put(terms_key(kPrefix), encode(kTerms));
  EXPECT_TRUE(read()->terms);
  EXPECT_EQ(read()->registered.epoch.number, 0u);
  put_epoch(1);
  EXPECT_EQ(read()->registered.epoch.number, 1u);
}

TEST_F(FleetReaders, DamagedRecordIsRefusedAndReadAgain) {
  (void)read();
  const std::string key = node_key(kPrefix, "n3");
  etcd_.put(key, "[1]");
  const auto refused = reader_.read(boottime_clock().now_ns() + kMinute);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().message.find(key), std::string::npos);
  etcd_.put(key, encode(NodeRecord{"", "tcp://127.0.0.3:1", 5}));
  EXPECT_EQ(read()->find(node_id("n3"))->address, "tcp://127.0.0.3:1");
}

TEST_F(FleetReaders, AnswerWithoutARecordIsRefused) {
  FleetReader anew(client_);
  (void)read();
  etcd_.say_nothing();
  for (FleetReader* reader : {&anew, &reader_}) {
    const auto refused = reader->read(boottime_clock().now_ns() + kMinute);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kProtocol);
  }
}

TEST_F(FleetReaders, WhateverIsWrittenIsKnown) {
  std::mt19937_64 random(1);
  const auto draw = [&](uint64_t below) { return random() % below; };
  uint64_t epoch = 4;
  for (int i = 0; i < 300; ++i) {
    for (uint64_t writes = draw(4); writes > 0; --writes) {
      const std::string name = name_of(draw(kNodes));
      switch (draw(7)) {
        case 0:
          put_epoch(epoch += draw(2));
          break;
        case 1:
          etcd_.erase(node_key(kPrefix, name));
          break;
        case 2:
          etcd_.put(drained_key(kPrefix, name), "");
          break;
        case 3:
          etcd_.erase(drained_key(kPrefix, name));
          break;
        case 4:
          etcd_.erase(confirmed_key(kPrefix, node_id(name)));
          break;
        case 5:
          confirm(draw(kNodes), epoch);
          break;
        default:
          etcd_.put(node_key(kPrefix, name),
                    encode(NodeRecord{"", "tcp://127.0.0.1:" + std::to_string(1 + draw(99)), 5}));
      }
    }
    expect_all_is_known();
  }
}

}  // namespace
}  // namespace farpage::etcd
