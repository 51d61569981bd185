#include "etcd/register.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>

#include "net/runtime/asio_runtime.h"
#include "tests/etcd/stored_etcd.h"

namespace farpage::etcd {
namespace {

const std::string kPrefix = "/farpage/x/";
constexpr uint64_t kFleetId = 77;

// Of a fleet of one node.
class Registers : public testing::Test {
 protected:
  Registers() {
    put_terms(kFleetId);
    put_epoch(4);
    etcd_.put(confirmed_key(kPrefix, node_id("a")), encode_confirmed(4));
    etcd_.put(node_key(kPrefix, "a"), encode(NodeRecord{"a", "tcp://127.0.0.1:1", 5}));
  }
  ~Registers() override {
    runtime_.run([this] { register_.reset(); });
  }

  void put_terms(uint64_t id) {
    etcd_.put(terms_key(kPrefix), encode(Terms{1000, 4096, 1, 0, id}));
  }
  void put_epoch(uint64_t number) {
    etcd_.put(epoch_key(kPrefix),
              encode(Epoch{number, 1, 0, 4096, {{node_id("a"), 10, false, 7}}}));
  }
  Result<RegisteredEpoch> read() {
    std::promise<Result<RegisteredEpoch>> answer;
    runtime_.after(0, [&] {
      register_->read([&](Result<RegisteredEpoch> read) { answer.set_value(std::move(read)); });
    });
    return answer.get_future().get();
  }

  StoredEtcd etcd_;
  Client client_{etcd_.access(kPrefix)};
  FleetReader reader_{client_};
  AsioRuntime runtime_;
  std::unique_ptr<Register> register_ =
      std::make_unique<Register>(runtime_, reader_, Register::Options{kFleetId, 10 * kSecond, {}});
};

TEST_F(Registers, ReadBringsTheEpochItsConfirmationsAndAddresses) {
  auto read = this->read();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->epoch.number, 4u);
  EXPECT_EQ(read->confirmed, std::vector<NodeId>{node_id("a")});
  EXPECT_TRUE(read->silent.empty());
  EXPECT_EQ(register_->address_of(node_id("a")), "tcp://127.0.0.1:1");
  put_epoch(5);
  read = this->read();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->epoch.number, 5u);
  EXPECT_TRUE(read->confirmed.empty());
}

TEST_F(Registers, WhatANodeHasToldOfALaterEpochStaysUntilThatIsRead) {
  ASSERT_TRUE(read());
  register_->heard_of(5, node_id("a"), "tcp://127.0.0.5:1");
  etcd_.put("/elsewhere", "");
  ASSERT_TRUE(read());
  EXPECT_EQ(register_->address_of(node_id("a")), "tcp://127.0.0.5:1");
  put_epoch(5);
  ASSERT_TRUE(read());
  EXPECT_EQ(register_->address_of(node_id("a")), "tcp://127.0.0.1:1");
}

TEST_F(Registers, AnotherFleetsDataIsRefusedAfterReadsThatSawNoChange) {
  ASSERT_TRUE(read());
  ASSERT_TRUE(read());
  put_terms(kFleetId + 1);
  for (int i = 0; i < 3; ++i) {
    const auto other = read();
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, Code::kDenied);
  }
}

// Each member writes a confirmation, which is none of the others' business at that moment.
TEST_F(Registers, EpochAloneIsWatched) {
  std::promise<void> told;
  std::atomic<int> times{0};
  std::shared_ptr<void> watching;
  runtime_.run([&] {
    watching = register_->when_changed([&] {
      if (++times == 2) told.set_value();  // that the watch is open, and of the event
    });
  });
  told.get_future().get();
  runtime_.run([&] { watching.reset(); });
  EXPECT_EQ(etcd_.watched(),
            R"({"create_request":{"key":")" + to_base64(epoch_key(kPrefix)) + R"("}})");
}

}  // namespace
}  // namespace farpage::etcd
