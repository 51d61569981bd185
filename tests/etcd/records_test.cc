#include "etcd/records.h"

#include <gtest/gtest.h>

namespace farpage::etcd {
namespace {

const std::string kPrefix = "/farpage/test/";

Epoch epoch_of_two() {
  return {.number = 12,
          .replicas = 2,
          .seed = 0xFEDCBA9876543210,
          .page_bytes = 65'536,
          .members = {{node_id("a"), 0xFFFFFFFFFFFFFFFF, false, 1023},
                      {node_id("b"), 1, false, 0},
                      {node_id("c"), 2, true, 7}}};
}

std::string epoch_record(const std::string& number, const std::string& replicas,
                         const std::string& members) {
  return R"({"placement":2,"number":)" + number + R"(,"replicas":)" + replicas +
         R"(,"page_bytes":1,"members":[)" + members + "]}";
}

TransactionReply reply_of_all() {
  TransactionReply reply;
  reply.held = true;
  const Terms terms = {2'000, 65'536, 2, 7, 0xC0FFEE};
  const NodeRecord node = {"a", "tcp://10.0.0.1:7010", 0xABCD, 0, 0};
  reply.found = {{{terms_key(kPrefix), encode(terms), 3, 0}},
                 {{epoch_key(kPrefix), encode(epoch_of_two()), 9, 0}},
                 {{confirmed_key(kPrefix, node_id("a")), "12", 10, 0},
                  {confirmed_key(kPrefix, node_id("b")), "11", 8, 0}},
                 {{node_key(kPrefix, "a"), encode(node), 5, 77}},
                 {{drained_key(kPrefix, "c"), "", 11, 0}}};
  return reply;
}

TEST(EtcdRecords, ComeBackAsTheyWereWritten) {
  const auto fleet = decode_fleet(kPrefix, reply_of_all());
  ASSERT_TRUE(fleet) << fleet.error().message;
  EXPECT_EQ(fleet->terms, (Terms{2'000, 65'536, 2, 7, 0xC0FFEE}));
  EXPECT_EQ(fleet->registered.epoch, epoch_of_two());
  EXPECT_EQ(fleet->epoch_revision, 9u);
  ASSERT_EQ(fleet->nodes.size(), 1u);
  EXPECT_EQ(fleet->nodes[0].name, "a");
  EXPECT_EQ(fleet->nodes[0].address, "tcp://10.0.0.1:7010");
  EXPECT_EQ(fleet->nodes[0].owner, 0xABCDu);
  EXPECT_EQ(fleet->nodes[0].revision, 5u);
  EXPECT_EQ(fleet->nodes[0].lease, 77u);
  EXPECT_EQ(fleet->drained, std::vector<std::string>{"c"});
  EXPECT_NE(fleet->find(node_id("a")), nullptr);
  EXPECT_EQ(fleet->find(node_id("b")), nullptr);
}

TEST(EtcdRecords, ConfirmationOfAnotherEpochCountsForNothing) {
  const auto fleet = decode_fleet(kPrefix, reply_of_all());
  ASSERT_TRUE(fleet);
  EXPECT_EQ(fleet->registered.confirmed, std::vector<NodeId>{node_id("a")});
  EXPECT_FALSE(fleet->registered.all_confirmed());
}

TEST(EtcdRecords, EtcdThatWasMadeAnewIsAnotherFleet) {
  const auto fleet = decode_fleet(kPrefix, reply_of_all());
  ASSERT_TRUE(fleet);
  EXPECT_TRUE(fleet->check_id(0xC0FFEE));
  EXPECT_EQ(fleet->check_id(0xC0FFEF).error().code, Code::kDenied);
  EXPECT_EQ(FleetRecord().check_id(0xC0FFEE).error().code, Code::kDenied);
}

TEST(EtcdRecords, FleetThatNobodyHasBegunHasNoEpoch) {
  TransactionReply reply;
  reply.held = true;
  reply.found.resize(5);
  const auto fleet = decode_fleet(kPrefix, reply);
  ASSERT_TRUE(fleet);
  EXPECT_FALSE(fleet->terms);
  EXPECT_EQ(fleet->registered.epoch.number, 0u);
  EXPECT_EQ(fleet->epoch_revision, 0u);
}

// Read as if it were this release's, an earlier record would lead to other nodes.
TEST(EtcdRecords, RecordsOfAnotherReleaseAreRefusedWithBothVersions) {
  const auto refusal = [](size_t place, const std::string& value) {
    TransactionReply reply = reply_of_all();
    reply.found[place][0].value = value;
    const auto fleet = decode_fleet(kPrefix, reply);
    return fleet ? std::string("taken") : fleet.error().message;
  };
  const std::string members =
      R"("number":3,"replicas":1,"page_bytes":1,"members":[{"node":"1","slot":0}]})";
  EXPECT_EQ(refusal(1, R"({"placement":2,)" + members), "taken");
  EXPECT_EQ(refusal(1, "{" + members),
            "in etcd, '/farpage/test/epoch' is of another release of farpage (placement 1, and "
            "this program has 2): run one release on all nodes and clients of the fleet, which "
            "docs/operations.md#another-placement says how to change");
  EXPECT_NE(
      refusal(1, R"({"placement":3,)" + members).find("(placement 3, and this program has 2)"),
      std::string::npos);
  for (const char* format : {"1", "3"}) {
    const std::string terms =
        std::string(R"({"format":)") + format +
        R"(,"id":"1","lease_ms":2000,"page_bytes":1,"replicas":1,"seed":"0"})";
    EXPECT_NE(refusal(0, terms).find(std::string("(format ") + format +
                                     ", and this program has 2): run one release"),
              std::string::npos);
  }
}

TEST(EtcdRecords, ChangesAreThoseOfTheEpochThatIsKnown) {
  auto known = decode_fleet(kPrefix, reply_of_all());
  ASSERT_TRUE(known);
  known->revision = 12;
  const Transaction asked = read_changes(kPrefix, *known);
  ASSERT_EQ(asked.conditions.size(), 1u);
  EXPECT_EQ(asked.conditions[0].key, epoch_key(kPrefix));
  EXPECT_EQ(asked.conditions[0].mod_revision, 9u);
  ASSERT_EQ(asked.operations.size(), 4u);
  EXPECT_EQ(asked.operations[0].key, terms_key(kPrefix));
  EXPECT_EQ(asked.operations[0].after, 0u);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(asked.operations[i].after, 12u);
  ASSERT_EQ(asked.otherwise.size(), 5u);
  EXPECT_EQ(asked.otherwise[4].key, epoch_key(kPrefix));
  EXPECT_EQ(asked.otherwise[4].after, 0u);

  const TransactionReply all = reply_of_all();
  TransactionReply reply;
  reply.held = true;
  reply.header.revision = 14;
  reply.found = {all.found[0],
                 {{confirmed_key(kPrefix, node_id("b")), "12", 13, 0}},
                 {{node_key(kPrefix, "b"), R"({"address":"tcp://b:1","owner":"1"})", 14, 5}},
                 {}};
  reply.counts = {1, 2, 2, 1};
  const auto now = apply_changes(kPrefix, *known, reply);
  ASSERT_TRUE(now) << now.error().message;
  EXPECT_EQ(now->revision, 14u);
  EXPECT_EQ(now->registered.confirmed.size(), 2u);
  EXPECT_EQ(now->registered.silent, std::vector<NodeId>{node_id("c")});
  ASSERT_EQ(now->nodes.size(), 2u);
  EXPECT_EQ(now->nodes[1].name, "b");
  // Another number of keys than that of those that are known now.
  for (const std::vector<uint64_t>& counts :
       {std::vector<uint64_t>{1, 1, 2, 1}, {1, 2, 1, 1}, {1, 2, 2, 0}, {1, 3, 2, 1}}) {
    reply.counts = counts;
    EXPECT_EQ(apply_changes(kPrefix, *known, reply).error().code, Code::kAborted);
  }
  reply.counts.pop_back();
  EXPECT_EQ(apply_changes(kPrefix, *known, reply).error().code, Code::kProtocol);
}

TEST(EtcdRecords, AnotherEpochComesWithTheChanges) {
  const auto known = decode_fleet(kPrefix, reply_of_all());
  ASSERT_TRUE(known);
  Epoch next = epoch_of_two();
  next.number = 13;
  TransactionReply reply;
  reply.found = {reply_of_all().found[0],
                 {{confirmed_key(kPrefix, node_id("b")), "13", 13, 0}},
                 {},
                 {},
                 {{epoch_key(kPrefix), encode(next), 12, 0}}};
  reply.counts = {1, 2, 1, 1, 1};
  const auto now = apply_changes(kPrefix, *known, reply);
  ASSERT_TRUE(now) << now.error().message;
  EXPECT_EQ(now->registered.epoch, next);
  EXPECT_EQ(now->epoch_revision, 12u);
  EXPECT_EQ(now->registered.confirmed, std::vector<NodeId>{node_id("b")}) << "a's is of 12";
  reply.found[4].clear();
  EXPECT_EQ(apply_changes(kPrefix, *known, reply).error().code, Code::kAborted);
}

TEST(EtcdRecords, HalfARecordIsRefused) {
  const std::string whole = encode(epoch_of_two());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    TransactionReply reply = reply_of_all();
    reply.found[1][0].value = whole.substr(0, bytes);
    EXPECT_FALSE(decode_fleet(kPrefix, reply)) << bytes;
  }
}

TEST(EtcdRecords, WhatSomebodyElseWroteIsRefusedWithItsKey) {
  struct Damage {
    size_t place;
    std::string value;
  };
  for (const Damage& damage : {
           Damage{0, "hello"},
           Damage{0, "{}"},
           Damage{0, R"({"format":2,"lease_ms":5,"page_bytes":1,"replicas":1,"seed":"0"})"},
           Damage{0,
                  R"({"format":2,"id":"1","lease_ms":0,"page_bytes":1,"replicas":1,"seed":"0"})"},
           Damage{0, R"({"id":"1","lease_ms":5,"page_bytes":1,"replicas":1,"seed":"0"})"},
           Damage{1, ""},
           Damage{1, "[]"},
           Damage{1, R"({"placement":2,"number":1})"},
           Damage{1, R"({"placement":"two","number":1})"},
           Damage{1, epoch_record("0", "1", R"({"node":"1","slot":0})")},
           Damage{1, epoch_record("1", "9", R"({"node":"1","slot":0})")},
           Damage{1, epoch_record("1", "1", R"({"node":"g","slot":0})")},
           Damage{1, epoch_record("1", "1", "5")},
           Damage{1, epoch_record("1", "1", R"({"node":"1","slot":0},{"node":"1","slot":1})")},
           Damage{1, epoch_record("1", "1", R"({"node":"1","slot":3},{"node":"2","slot":3})")},
           Damage{1, epoch_record("1", "1", R"({"node":"1"})")},
           Damage{1, epoch_record("1", "1", R"({"node":"1","slot":1024})")},
           Damage{1, epoch_record("1", "1", R"({"node":"1","slot":65536})")},
           Damage{1, epoch_record("1", "1", R"({"node":"1","slot":-1})")},
           Damage{1, epoch_record("1", "1", R"({"node":"1","slot":"0x1"})")},
           Damage{2, "soon"},
           Damage{3, "[1]"},
           Damage{3, R"({"address":7})"},
       }) {
    TransactionReply reply = reply_of_all();
    reply.found[damage.place][0].value = damage.value;
    const auto fleet = decode_fleet(kPrefix, reply);
    ASSERT_FALSE(fleet) << damage.value;
    EXPECT_EQ(fleet.error().code, Code::kInvalid) << damage.value;
    EXPECT_NE(fleet.error().message.find(reply.found[damage.place][0].key), std::string::npos)
        << fleet.error().message;
  }
}

}  // namespace
}  // namespace farpage::etcd
