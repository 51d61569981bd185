#include "etcd/http.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "tests/etcd/scripted_etcd.h"

namespace farpage::etcd {
namespace {

uint64_t soon() {
  return boottime_clock().now_ns() + 20 * kSecond;
}

// More than any socket's buffers take.
TEST(EtcdHttp, ReplyThatArrivesInPiecesIsOne) {
  ScriptedEtcd etcd([](const ScriptedEtcd::Request& request) {
    return ScriptedEtcd::ok(request.body + std::string(15 * kMiB, ' '));
  });
  auto connection = HttpConnection::open(etcd.endpoint(), nullptr, soon());
  ASSERT_TRUE(connection);
  for (const std::string said : {"one", "two"}) {
    const auto reply = (*connection)->post({"/v3/x", said, ""}, soon());
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->body.size(), 15 * kMiB + said.size());
    EXPECT_EQ(reply->body.substr(0, said.size()), said);
  }
  EXPECT_EQ(etcd.connections(), 1);
}

// A server that this test makes speak when nobody has asked.
struct Talker {
  Talker() {
    listening.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* where = reinterpret_cast<sockaddr*>(&address);
    FARPAGE_CHECK(::bind(listening.get(), where, bytes) == 0);
    FARPAGE_CHECK(::listen(listening.get(), 1) == 0);
    FARPAGE_CHECK(::getsockname(listening.get(), where, &bytes) == 0);
    endpoint = {"", "127.0.0.1", ntohs(address.sin_port)};
  }
  void accept() { fd.reset(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
  void say(const std::string& text) const {
    FARPAGE_CHECK(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
                  static_cast<ssize_t>(text.size()));
  }
  void hear_request() const {
    std::string heard;
    while (!heard.ends_with("ask")) {
      char byte = 0;
      FARPAGE_CHECK(::recv(fd.get(), &byte, 1, 0) == 1);
      heard += byte;
    }
  }

  UniqueFd listening;
  UniqueFd fd;
  Address endpoint;
};

TEST(EtcdHttp, WhatIsSaidBetweenTwoRequestsIsNotTheSecondsReply) {
  Talker talker;
  auto connection = HttpConnection::open(talker.endpoint, nullptr, soon());
  ASSERT_TRUE(connection);
  talker.accept();
  std::thread answering([&] {
    talker.hear_request();
    talker.say(ScriptedEtcd::ok("first"));
  });
  const auto first = (*connection)->post({"/v3/x", "ask", ""}, soon());
  answering.join();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->body, "first");
  talker.say(ScriptedEtcd::ok("late"));
  const auto second = (*connection)->post({"/v3/x", "ask", ""}, soon());
  ASSERT_FALSE(second) << second->body;
  EXPECT_EQ(second.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace farpage::etcd
