#include "etcd/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "base/units.h"
#include "tests/etcd/scripted_etcd.h"

namespace farpage::etcd {
namespace {

using testing::HasSubstr;

constexpr uint64_t kLongNs = 20 * kSecond;
constexpr uint64_t kShortNs = 100 * kMillisecond;

uint64_t in(uint64_t ns) {
  return boottime_clock().now_ns() + ns;
}

Access access_to(std::initializer_list<const ScriptedEtcd*> etcds) {
  Access access;
  for (const ScriptedEtcd* etcd : etcds) access.endpoints.push_back(etcd->endpoint());
  access.prefix = "/farpage/x/";
  return access;
}

std::string written(uint64_t cluster, uint64_t revision) {
  return ScriptedEtcd::ok("{\"header\":{\"cluster_id\":\"" + std::to_string(cluster) +
                          "\",\"revision\":\"" + std::to_string(revision) + "\"}}");
}

TEST(EtcdClient, OneConnectionServesCallAfterCall) {
  ScriptedEtcd etcd([](const auto&) { return written(1, 5); });
  Client client(access_to({&etcd}));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client.run({}, in(kLongNs)));
  EXPECT_EQ(etcd.connections(), 1);
}

TEST(EtcdClient, ConnectionThatEtcdClosedIsMadeAgain) {
  ScriptedEtcd etcd([](const auto&) {
    std::string reply = written(1, 5);
    reply.insert(reply.find("\r\n") + 2, "Connection: close\r\n");
    return reply;
  });
  Client client(access_to({&etcd}));
  for (int i = 0; i < 3; ++i) {
    const auto reply = client.run({}, in(kLongNs));
    ASSERT_TRUE(reply) << reply.error().message;
  }
  EXPECT_EQ(etcd.connections(), 3);
}

TEST(EtcdClient, WhatComesBehindAReplyIsNotTheNextOne) {
  std::atomic<uint64_t> asked{0};
  ScriptedEtcd etcd([&](const auto&) {
    const uint64_t number = ++asked;
    return written(1, 10 * number) + written(1, 10 * number + 5);
  });
  Client client(access_to({&etcd}));
  for (uint64_t number = 1; number <= 3; ++number) {
    const auto reply = client.run({}, in(kLongNs));
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->header.revision, 10 * number);
  }
  EXPECT_EQ(etcd.connections(), 3);
}

TEST(EtcdClient, EndpointThatHangsLeavesTimeToTheOthers) {
  ScriptedEtcd silent([](const auto&) { return std::string(); });
  ScriptedEtcd broken([](const auto&) { return ScriptedEtcd::reply("503 Unavailable", "{}"); });
  std::atomic<int> asked{0};
  ScriptedEtcd well([&](const auto&) {
    ++asked;
    return written(1, 5);
  });
  Client client(access_to({&silent, &broken, &well}));
  const auto reply = client.run({}, in(3 * kSecond));
  ASSERT_TRUE(reply) << reply.error().message;
  // And is not asked first the next time.
  ASSERT_TRUE(client.run({}, in(kLongNs)));
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(silent.connections(), 1);
}

TEST(EtcdClient, CallEndsWithItsDeadline) {
  ScriptedEtcd silent([](const auto&) { return std::string(); });
  ScriptedEtcd half(
      [](const auto&) { return std::string("HTTP/1.1 200 OK\r\nContent-Length: 9"); });
  for (const ScriptedEtcd* etcd : {&silent, &half}) {
    Client client(access_to({etcd}));
    const auto reply = client.run({}, in(kShortNs));
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, Code::kTimeout) << reply.error().message;
  }
}

TEST(EtcdClient, GarbageIsAnErrorThatSaysWhereToLook) {
  for (const std::string& garbage :
       {std::string("SSH-2.0-OpenSSH_9.2\r\n"), ScriptedEtcd::ok("<html>hello</html>"),
        ScriptedEtcd::ok(""), ScriptedEtcd::ok("{\"header\":{}}"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")}) {
    ScriptedEtcd etcd([&](const auto&) { return garbage; });
    Client client(access_to({&etcd}));
    const auto reply = client.run({}, in(kLongNs));
    ASSERT_FALSE(reply) << garbage;
    EXPECT_THAT(reply.error().message, HasSubstr("etcd")) << garbage;
  }
}

// Answers that an endpoint may give after it has answered well, of cluster 1 and revision 9.
std::vector<std::string> not_to_be_believed() {
  return {"SSH-2.0-OpenSSH_9.2\r\n",
          ScriptedEtcd::ok("<html>hello</html>"),
          ScriptedEtcd::ok(""),
          ScriptedEtcd::ok("{\"header\":{}}"),
          written(2, 9),
          written(1, 8)};
}

TEST(EtcdClient, EndpointThatIsNotBelievedIsPassedOver) {
  for (const std::string& answer : not_to_be_believed()) {
    std::atomic<int> of_bad{0};
    ScriptedEtcd bad([&](const auto&) { return ++of_bad == 1 ? written(1, 9) : answer; });
    std::atomic<int> of_well{0};
    ScriptedEtcd well([&](const auto&) {
      ++of_well;
      return written(1, 10);
    });
    Client client(access_to({&bad, &well}));
    ASSERT_TRUE(client.run({}, in(kLongNs)));
    ASSERT_EQ(of_bad, 1);
    const auto reply = client.run({}, in(kLongNs));
    ASSERT_TRUE(reply) << answer << reply.error().message;
    EXPECT_EQ(reply->header.revision, 10u) << answer;
    EXPECT_EQ(of_well, 1) << answer;
    const int asked = of_bad;
    EXPECT_GE(asked, 2) << answer;
    // And is not asked first the next time.
    EXPECT_TRUE(client.run({}, in(kLongNs))) << answer;
    EXPECT_EQ(of_bad, asked) << answer;
  }
}

TEST(EtcdClient, EndpointThatIsNotBelievedOfALeaseIsPassedOver) {
  std::atomic<int> of_well{0};
  ScriptedEtcd garbage([](const auto&) { return ScriptedEtcd::ok("<html>hello</html>"); });
  ScriptedEtcd well([&](const ScriptedEtcd::Request& request) {
    ++of_well;
    const std::string lease = R"({"header":{"cluster_id":"1"},"ID":"9","TTL":"5"})";
    return ScriptedEtcd::ok(request.path == "/v3/lease/keepalive" ? R"({"result":)" + lease + "}\n"
                                                                  : lease);
  });
  EXPECT_TRUE(Client(access_to({&garbage, &well})).grant(5, in(kLongNs)));
  EXPECT_TRUE(Client(access_to({&garbage, &well})).keep_alive(9, in(kLongNs)));
  EXPECT_TRUE(Client(access_to({&garbage, &well})).revoke(9, in(kLongNs)));
  EXPECT_EQ(of_well, 3);
}

TEST(EtcdClient, WhereNobodyIsBelievedAllAreAskedOnceAndTheReasonIsTold) {
  std::atomic<int> asked{0};
  const auto garbage = [&](const auto&) {
    ++asked;
    return ScriptedEtcd::ok("<html>hello</html>");
  };
  ScriptedEtcd first(garbage);
  ScriptedEtcd second(garbage);
  Client client(access_to({&first, &second}));
  const auto reply = client.run({}, in(kLongNs));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kProtocol);
  EXPECT_THAT(reply.error().message, HasSubstr("etcd.endpoints"));
  EXPECT_EQ(asked, 2);
}

TEST(EtcdClient, NobodyThereSaysSo) {
  Access access;
  {
    ScriptedEtcd gone([](const auto&) { return std::string(); });
    access = access_to({&gone});
  }
  Client client(access);
  const auto reply = client.run({}, in(kLongNs));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr("etcd.endpoints"));
}

TEST(EtcdClient, AnotherClusterIsNotBelieved) {
  std::atomic<uint64_t> cluster{1};
  ScriptedEtcd etcd([&](const auto&) { return written(cluster, 5); });
  Client client(access_to({&etcd}));
  ASSERT_TRUE(client.run({}, in(kLongNs)));
  cluster = 2;
  const auto reply = client.run({}, in(kLongNs));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kDenied);
  EXPECT_THAT(reply.error().message, HasSubstr("cluster 2"));
  cluster = 1;
  EXPECT_TRUE(client.run({}, in(kLongNs)));
}

TEST(EtcdClient, OlderStateThanOneThatWasToldOfIsNotBelieved) {
  std::atomic<uint64_t> revision{9};
  ScriptedEtcd etcd([&](const auto&) { return written(1, revision); });
  Client client(access_to({&etcd}));
  ASSERT_TRUE(client.run({}, in(kLongNs)));
  revision = 8;
  const auto reply = client.run({}, in(kLongNs));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr("set back"));
  revision = 9;
  EXPECT_TRUE(client.run({}, in(kLongNs)));
}

Access with_user(const ScriptedEtcd& etcd) {
  Access access = access_to({&etcd});
  access.user = "farpage";
  access.password = std::string("secret");
  return access;
}

TEST(EtcdClient, TokenThatHasEndedIsAskedForAgain) {
  std::atomic<int> tokens{0};
  std::atomic<bool> ended{false};
  ScriptedEtcd etcd([&](const ScriptedEtcd::Request& request) {
    if (request.path == "/v3/auth/authenticate") {
      EXPECT_EQ(request.body, R"({"name":"farpage","password":"secret"})");
      ended = false;
      return ScriptedEtcd::ok("{\"header\":{},\"token\":\"t" + std::to_string(++tokens) + "\"}");
    }
    EXPECT_EQ(request.authorization, "t" + std::to_string(tokens));
    if (!ended) return written(1, 5);
    return ScriptedEtcd::reply("401 Unauthorized",
                               R"({"code":16,"message":"etcdserver: invalid auth token"})");
  });
  Client client(with_user(etcd));
  ASSERT_TRUE(client.run({}, in(kLongNs)));
  ASSERT_TRUE(client.run({}, in(kLongNs)));
  EXPECT_EQ(tokens, 1);
  ended = true;
  const auto reply = client.run({}, in(kLongNs));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(tokens, 2);
}

// Lets everybody in, and then says this.
ScriptedEtcd::Script refusing(const std::string& said) {
  return [said](const ScriptedEtcd::Request& request) {
    if (request.path == "/v3/auth/authenticate") return ScriptedEtcd::ok(R"({"token":"t"})");
    return ScriptedEtcd::reply("400 Bad Request", said);
  };
}

TEST(EtcdClient, UserThatMayNotIsTold) {
  ScriptedEtcd stranger([](const auto&) {
    return ScriptedEtcd::reply("400 Bad Request", R"({"code":3,"message":"invalid password"})");
  });
  Client wrong(with_user(stranger));
  const auto not_in = wrong.run({}, in(kLongNs));
  ASSERT_FALSE(not_in);
  EXPECT_EQ(not_in.error().code, Code::kDenied);
  EXPECT_THAT(not_in.error().message, HasSubstr("etcd.user"));
  ScriptedEtcd closed(refusing(R"({"code":7,"message":"etcdserver: permission denied"})"));
  Client denied(with_user(closed));
  const auto may_not = denied.run({}, in(kLongNs));
  ASSERT_FALSE(may_not);
  EXPECT_EQ(may_not.error().code, Code::kDenied);
  EXPECT_THAT(may_not.error().message, HasSubstr("/farpage/x/"));
  ScriptedEtcd asking(refusing(R"({"code":3,"message":"etcdserver: user name is empty"})"));
  Client nobody(access_to({&asking}));
  const auto asked = nobody.run({}, in(kLongNs));
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, Code::kDenied);
  EXPECT_THAT(asked.error().message, HasSubstr("etcd.password_file"));
}

TEST(EtcdClient, LeaseThatHasEndedIsNotFound) {
  ScriptedEtcd etcd([](const auto&) {
    return ScriptedEtcd::ok("{\"result\":{\"header\":{\"cluster_id\":\"1\"},\"ID\":\"9\"}}\n");
  });
  Client client(access_to({&etcd}));
  const auto kept = client.keep_alive(9, in(kLongNs));
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code, Code::kNotFound);
}

TEST(EtcdClient, WatchTellsUntilItIsCanceled) {
  ScriptedEtcd etcd([](const ScriptedEtcd::Request& request) {
    EXPECT_EQ(request.path, "/v3/watch");
    const std::string head = "{\"result\":{\"header\":{\"cluster_id\":\"1\"}";
    // Lines and pieces have nothing to do with each other.
    return ScriptedEtcd::lines(
        {head + ",\"created\":true}}\n" + head, ",\"events\":[{\"kv\":{}}]}}",
         "\n" + head + ",\"canceled\":true,\"compact_revision\":\"40\"}}\n"});
  });
  Client client(access_to({&etcd}));
  int opened = 0;
  int changed = 0;
  const Error ended = client.watch(
      "/a", in(kLongNs), [&] { ++opened; }, [&] { ++changed; });
  EXPECT_EQ(ended.code, Code::kAborted);
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(changed, 1);
}

TEST(EtcdClient, WatchThatIsNoneEnds) {
  const std::string created = "{\"result\":{\"header\":{\"cluster_id\":\"1\"},\"created\":true}}\n";
  for (const std::string& text :
       {ScriptedEtcd::reply("404 Not Found", "x"), std::string("hello\r\n\r\n"),
        ScriptedEtcd::lines({"no JSON\n"}), ScriptedEtcd::lines({created}) + "0\r\n\r\n",
        ScriptedEtcd::lines({std::string(5 * kMiB, 'x')})}) {
    ScriptedEtcd etcd([&](const auto&) { return text; });
    Client client(access_to({&etcd}));
    const Error ended = client.watch(
        "/a", in(kLongNs), [] {}, [] {});
    EXPECT_NE(ended.code, Code::kOk);
  }
}

TEST(EtcdClient, StopEndsWhatIsUnderWay) {
  std::atomic<int> asked{0};
  const std::string created = "{\"result\":{\"header\":{\"cluster_id\":\"1\"},\"created\":true}}\n";
  ScriptedEtcd etcd([&](const ScriptedEtcd::Request& request) {
    ++asked;
    return request.path == "/v3/watch" ? ScriptedEtcd::lines({created}) : std::string();
  });
  Client client(access_to({&etcd}));
  std::thread call([&] { EXPECT_FALSE(client.run({}, in(kLongNs * 100))); });
  std::thread watch([&] {
    client.watch(
        "/a", in(kLongNs * 100), [] {}, [] {});
  });
  while (asked < 2) std::this_thread::yield();
  client.stop();
  call.join();
  watch.join();
  EXPECT_FALSE(client.run({}, in(kLongNs)));
}

}  // namespace
}  // namespace farpage::etcd
