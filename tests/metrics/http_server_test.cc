#include "metrics/http_server.h"

#include <gtest/gtest.h>

#include <deque>

#include "net/listening_socket.h"
#include "tests/metrics/http_peer.h"

namespace farpage {
namespace {

constexpr uint64_t kPatienceNs = 100 * kMillisecond;

// Each byte comes in good time, and the request never.
TEST(HttpServer, WhoTricklesIsCutOffAtTheDeadline) {
  auto socket = listen_on({"", "127.0.0.1", 0}).value();
  const std::string url = "http://" + format_host_port(socket.address) + "/";
  const auto server =
      HttpServer::start(
          std::move(socket.fd), [](const std::string&) { return HttpResponse{}; }, kPatienceNs)
          .value();
  const uint64_t start = boottime_clock().now_ns();
  HttpPeer peer(url);
  peer.say("GET / HTTP/1.1\r\nX: ");
  constexpr int kPauseMs = 5;
  while (!peer.is_closed(kPauseMs) && boottime_clock().now_ns() - start < 20 * kSecond) {
    peer.try_say("x");
  }
  const uint64_t took = boottime_clock().now_ns() - start;
  EXPECT_GE(took, kPatienceNs);
  EXPECT_LT(took, 10 * kSecond);
}

// More of them than it keeps, and none of them is slow enough for its deadline.
TEST(HttpServer, PeersThatSayNothingHoldNobodyUp) {
  constexpr int kSilent = 300;
  auto socket = listen_on({"", "127.0.0.1", 0}).value();
  const std::string url = "http://" + format_host_port(socket.address) + "/";
  const auto server =
      HttpServer::start(
          std::move(socket.fd), [](const std::string&) { return HttpResponse{}; }, 1'000 * kSecond)
          .value();
  std::deque<HttpPeer> silent;
  for (int i = 0; i < kSilent; ++i) {
    silent.emplace_back(url);
    if (i % 2 == 0) silent.back().try_say("GET / HTTP/1.1\r\n");  // and no more
    if (i % 32 == 31) {
      EXPECT_TRUE(HttpPeer::get(url, "/").starts_with("HTTP/1.1 200 OK\r\n")) << i;
    }
  }
  EXPECT_TRUE(silent.front().is_closed(20'000)) << "the oldest goes first";
  EXPECT_FALSE(silent.back().is_closed(0));
}

}  // namespace
}  // namespace farpage
