#include "etcd/messages.h"

#include <gtest/gtest.h>

#include <string>

#include "etcd/json.h"

namespace farpage::etcd {
namespace {

using Kind = Operation::Kind;

// Answers of etcd 3.4.23, word for word.
constexpr const char* kFound =
    R"({"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",)"
    R"("revision":"4","raft_term":"2"},"succeeded":true,"responses":[{"response_range":{)"
    R"("header":{"revision":"3"},"kvs":[{"key":"L2EvYg==","create_revision":"2",)"
    R"("mod_revision":"3","version":"2","value":"aGVsbG8=","lease":"2324035548893671431"}],)"
    R"("count":"1"}},{"response_put":{"header":{"revision":"4"}}}]})";

constexpr const char* kDidNotHold =
    R"({"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",)"
    R"("revision":"4","raft_term":"2"}})";

// A range of two keys, of which one was written after revision 2; and none after 3, of a
// transaction whose condition did not hold.
constexpr const char* kOneAfter =
    R"({"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",)"
    R"("revision":"3","raft_term":"2"},"succeeded":true,"responses":[{"response_range":{)"
    R"("header":{"revision":"3"},"kvs":[{"key":"L2EvYw==","create_revision":"3",)"
    R"("mod_revision":"3","version":"1","value":"eA=="}],"count":"2"}}]})";
constexpr const char* kNoneAfter =
    R"({"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",)"
    R"("revision":"3","raft_term":"2"},"responses":[{"response_range":{)"
    R"("header":{"revision":"3"},"count":"2"}}]})";

constexpr const char* kGranted =
    R"({"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",)"
    R"("revision":"1","raft_term":"2"},"ID":"2324035548893671429","TTL":"5"})";

constexpr const char* kKept =
    R"({"result":{"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",)"
    R"("revision":"4","raft_term":"2"},"ID":"2324035548893671431","TTL":"500"}})"
    "\n\n";

// Of a lease that has ended; with status 200.
constexpr const char* kNotKept =
    R"({"result":{"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",)"
    R"("revision":"4","raft_term":"2"},"ID":"77"}})"
    "\n\n";

constexpr const char* kWatching =
    R"({"result":{"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",)"
    R"("revision":"4","raft_term":"2"},"created":true}})";

constexpr const char* kChanged =
    R"({"result":{"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",)"
    R"("revision":"5","raft_term":"2"},"events":[{"kv":{"key":"L2EvYg==","create_revision":"2",)"
    R"("mod_revision":"5","version":"3","value":"aGVsbG8="}}]}})";

constexpr const char* kCompacted =
    R"({"result":{"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",)"
    R"("raft_term":"2"},"canceled":true,"compact_revision":"4"}})";

Transaction get_and_put() {
  Transaction asked;
  asked.operations = {{Kind::kGet, "/a/b"}, {Kind::kPut, "/a/c", "x"}};
  return asked;
}

TEST(EtcdMessages, TransactionIsInTheGatewaysJson) {
  Transaction asked;
  asked.conditions = {{"/a/b", 6}, {"/n", 0}};
  asked.operations = {{Kind::kGet, "/a/b"},
                      {.kind = Kind::kGetAll, .key = "/a/", .after = 8},
                      {Kind::kPut, "/a/c", "x", 77},
                      {Kind::kErase, "/a/d"}};
  EXPECT_EQ(encode(asked),
            R"({"compare":[{"key":"L2EvYg==","target":"MOD","result":"EQUAL","mod_revision":"6"},)"
            R"({"key":"L24=","target":"MOD","result":"EQUAL","mod_revision":"0"}],)"
            R"("success":[{"request_range":{"key":"L2EvYg=="}},)"
            R"({"request_range":{"key":"L2Ev","range_end":"L2Ew","min_mod_revision":"9"}},)"
            R"({"request_put":{"key":"L2EvYw==","value":"eA==","lease":"77"}},)"
            R"({"request_delete_range":{"key":"L2EvZA=="}}]})");
}

TEST(EtcdMessages, AnswerOfARealEtcdIsRead) {
  const auto reply = decode_transaction(get_and_put(), kFound);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->header.cluster_id, 324952591200643719u);
  EXPECT_EQ(reply->header.revision, 4u);
  EXPECT_TRUE(reply->held);
  ASSERT_EQ(reply->found.size(), 2u);
  ASSERT_EQ(reply->found[0].size(), 1u);
  EXPECT_EQ(reply->found[0][0].key, "/a/b");
  EXPECT_EQ(reply->found[0][0].value, "hello");
  EXPECT_EQ(reply->found[0][0].mod_revision, 3u);
  EXPECT_EQ(reply->found[0][0].lease, 2324035548893671431u);
  EXPECT_TRUE(reply->found[1].empty());
  EXPECT_EQ(reply->counts, (std::vector<uint64_t>{1, 0}));
}

TEST(EtcdMessages, CountIsOfAllKeysWheneverTheyWereWritten) {
  Transaction asked;
  asked.operations = {{.kind = Kind::kGetAll, .key = "/a/", .after = 2}};
  const auto one = decode_transaction(asked, kOneAfter);
  ASSERT_TRUE(one) << one.error().message;
  ASSERT_EQ(one->found[0].size(), 1u);
  EXPECT_EQ(one->found[0][0].key, "/a/c");
  EXPECT_EQ(one->counts, std::vector<uint64_t>{2});
}

TEST(EtcdMessages, OtherOperationsHappenWhereTheConditionDoesNotHold) {
  Transaction asked;
  asked.conditions = {{"/a/b", 9}};
  asked.operations = {{Kind::kGet, "/a/"}, {Kind::kGet, "/b"}};
  asked.otherwise = {{.kind = Kind::kGetAll, .key = "/a/", .after = 3}};
  EXPECT_NE(encode(asked).find(R"("failure":[{"request_range":{"key":"L2Ev","range_end":"L2Ew",)"
                               R"("min_mod_revision":"4"}}])"),
            std::string::npos);
  const auto none = decode_transaction(asked, kNoneAfter);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(none->held);
  ASSERT_EQ(none->found.size(), 1u);
  EXPECT_TRUE(none->found[0].empty());
  EXPECT_EQ(none->counts, std::vector<uint64_t>{2});
  asked.otherwise.clear();
  EXPECT_EQ(decode_transaction(asked, kNoneAfter).error().code, Code::kProtocol);
}

TEST(EtcdMessages, ConditionThatDidNotHoldIsNoError) {
  const auto reply = decode_transaction(get_and_put(), kDidNotHold);
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->held);
}

TEST(EtcdMessages, AnswerThatIsNoneIsRefused) {
  for (
      const std::string text : {
          "",
          "null",
          "[]",
          "{",
          "hello",
          R"({})",
          R"({"header":7})",
          R"({"header":{"revision":"3"}})",                       // of no cluster
          R"({"header":{"cluster_id":"x"}})",                     // no number
          R"({"header":{"cluster_id":"-1"}})",                    //
          R"({"header":{"cluster_id":"18446744073709551616"}})",  // above 64 bits
          R"({"header":{"cluster_id":"1"},"succeeded":"yes"})",   //
          R"({"header":{"cluster_id":"1"},"succeeded":true})",    // no answers
          R"({"header":{"cluster_id":"1"},"succeeded":true,"responses":[{},{}]})",
          R"({"header":{"cluster_id":"1"},"succeeded":true,"responses":[7,{}]})",
          R"({"header":{"cluster_id":"1"},"succeeded":true,"responses":[{"response_range":{"kvs":[3]}},{}]})",
          R"({"header":{"cluster_id":"1"},"succeeded":true,"responses":[{"response_range":{"kvs":[{"key":"L2E"}]}},{}]})",
          R"({"header":{"cluster_id":"1"},"succeeded":true,"responses":[{"response_range":{"kvs":[{"key":"L2Fi"}]}},{}]})",
      }) {
    const auto reply = decode_transaction(get_and_put(), text);
    ASSERT_FALSE(reply) << text;
    EXPECT_EQ(reply.error().code, Code::kProtocol) << text;
  }
}

TEST(EtcdMessages, DeepNestingIsRefusedWithoutARecursionOfItsDepth) {
  const std::string deep(100'000, '[');
  EXPECT_FALSE(decode_transaction(get_and_put(), "{\"header\":" + deep));
}

TEST(EtcdMessages, LeasesAreRead) {
  const auto granted = decode_grant(kGranted);
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->lease, 2324035548893671429u);
  EXPECT_EQ(granted->ttl_s, 5u);
  const auto kept = decode_keep_alive(kKept);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->ttl_s, 500u);
  const auto ended = decode_keep_alive(kNotKept);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->ttl_s, 0u);
  EXPECT_FALSE(decode_grant(R"({"header":{"cluster_id":"5"},"TTL":"5"})"));
}

TEST(EtcdMessages, WatchTellsOfChangesAndOfItsEnd) {
  const auto created = decode_watch(kWatching);
  ASSERT_TRUE(created);
  EXPECT_FALSE(created->changed);
  const auto changed = decode_watch(kChanged);
  ASSERT_TRUE(changed);
  EXPECT_TRUE(changed->changed);
  EXPECT_FALSE(changed->canceled);
  const auto compacted = decode_watch(kCompacted);
  ASSERT_TRUE(compacted);
  EXPECT_TRUE(compacted->canceled);
  const auto failed = decode_watch(
      R"({"error":{"grpc_code":16,"http_code":401,"message":"etcdserver: invalid auth token"}})");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kAborted);
}

TEST(EtcdMessages, ErrorsSayWhatToDoNext) {
  const auto code = [](unsigned status, const char* text) {
    return decode_error(status, text).code;
  };
  EXPECT_EQ(code(401, R"({"error":"x","code":16,"message":"etcdserver: invalid auth token"})"),
            Code::kAborted);
  EXPECT_EQ(code(400, R"({"error":"x","code":3,"message":"etcdserver: user name is empty"})"),
            Code::kAborted);
  EXPECT_EQ(code(400, R"({"code":3,"message":"etcdserver: revision of auth store is old"})"),
            Code::kAborted);
  EXPECT_EQ(code(500, R"({"code":2,"message":"auth: revision in header is old"})"), Code::kAborted);
  EXPECT_EQ(code(403, R"({"error":"x","code":7,"message":"etcdserver: permission denied"})"),
            Code::kDenied);
  EXPECT_EQ(code(404, R"({"error":"x","code":5,"message":"requested lease not found"})"),
            Code::kNotFound);
  EXPECT_EQ(code(503, R"({"error":"x","code":14,"message":"etcdserver: no leader"})"),
            Code::kUnavailable);
  EXPECT_EQ(code(502, "<html>bad gateway</html>"), Code::kUnavailable);
  EXPECT_EQ(code(500, ""), Code::kUnavailable);
}

// As its gateway answers a put and a grant once the quota is used up, and after corruption.
TEST(EtcdMessages, OfAnAlarmItIsSaidHowItEnds) {
  const Error full =
      decode_error(429, R"({"error":"etcdserver: mvcc: database space exceeded","code":8,)"
                        R"("message":"etcdserver: mvcc: database space exceeded"})");
  EXPECT_EQ(full.code, Code::kUnavailable);
  for (const char* words : {"database space exceeded", "NOSPACE", "etcdctl compact",
                            "etcdctl defrag", "etcdctl alarm disarm"}) {
    EXPECT_NE(full.message.find(words), std::string::npos) << full.message;
  }
  const Error corrupt = decode_error(500, R"({"code":13,"message":"etcdserver: corrupt cluster"})");
  EXPECT_NE(corrupt.message.find("etcdctl alarm list"), std::string::npos) << corrupt.message;
  const Error other = decode_error(503, R"({"code":14,"message":"etcdserver: no leader"})");
  EXPECT_EQ(other.message, "etcdserver: no leader");
  EXPECT_EQ(decode_error(502, "bad gateway").message, "HTTP status 502: bad gateway");
}

TEST(EtcdMessages, WhatIsSaidInAnErrorIsShortAndOnOneLine) {
  const Error error = decode_error(500, "a\nb\x1b[31m" + std::string(5'000, 'x'));
  EXPECT_EQ(error.message.find('\n'), std::string::npos);
  EXPECT_EQ(error.message.find('\x1b'), std::string::npos);
  EXPECT_LT(error.message.size(), 300u);
}

TEST(EtcdMessages, Base64IsThatOfRfc4648) {
  // Its section 10.
  for (const auto& [bytes, text] : {std::pair<std::string, std::string>{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text).value(), bytes);
  }
  for (const char* wrong : {"Z", "Zg", "Zg=", "Zg===", "Z===", "Zm9v ", " Zm9v", "Zm=v", "Zm9*"}) {
    EXPECT_FALSE(from_base64(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace farpage::etcd
