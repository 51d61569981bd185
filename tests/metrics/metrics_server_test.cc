#include "metrics/metrics_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/metrics/http_peer.h"

namespace farpage {
namespace {

std::unique_ptr<MetricsServer> serve(std::function<void(MetricVisitor&)> describe) {
  auto server = MetricsServer::start(listen_on({"", "127.0.0.1", 0}).value(), std::move(describe));
  EXPECT_TRUE(server.has_value()) << server.error().message;
  return std::move(*server);
}

void describe_one(MetricVisitor& visitor) {
  visitor.counter("one_total", "A number", 1);
}

bool is_ok(const std::string& response) {
  return response.starts_with("HTTP/1.1 200 OK\r\n");
}

TEST(MetricsServer, ShowsWhatIsDescribed) {
  DurationHistogram durations;
  durations.add(1'000);            // 1.024 µs or less
  durations.add(2'000);            // the next one
  durations.add(3'600 * kSecond);  // beyond all
  const auto server = serve([&](MetricVisitor& visitor) {
    visitor.counter("cakes_total", "Cakes eaten", 3);
    visitor.gauge("hunger", "What is left of it", -0.5);
    visitor.family("crumbs", "By place", MetricKind::kGauge);
    visitor.value({{"place", "floor"}, {"kind", "a \"big\" one"}}, 9007199254740991.0);
    visitor.value({{"place", "plate"}}, 2);
    visitor.family("bites_seconds", "How long", MetricKind::kHistogram);
    visitor.histogram({{"who", "me"}}, durations);
    visitor.family("nothing_total", "Without a value", MetricKind::kCounter);
  });
  const std::string response = HttpPeer::get(server->url());
  ASSERT_TRUE(is_ok(response)) << response;
  for (const char* line : {
           "# HELP cakes_total Cakes eaten\n# TYPE cakes_total counter\ncakes_total 3\n",
           "# TYPE hunger gauge\nhunger -0.5\n",
           "crumbs{place=\"floor\",kind=\"a \\\"big\\\" one\"} 9007199254740991\n",
           "crumbs{place=\"plate\"} 2\n",
           "# TYPE bites_seconds histogram\n",
           "bites_seconds_count{who=\"me\"} 3\n",
           "bites_seconds_sum{who=\"me\"} 3600.000003\n",
           "bites_seconds_bucket{who=\"me\",le=\"1.024e-06\"} 1\n",
           "bites_seconds_bucket{who=\"me\",le=\"2.048e-06\"} 2\n",
           "bites_seconds_bucket{who=\"me\",le=\"4.294967296\"} 2\n",
           "bites_seconds_bucket{who=\"me\",le=\"+Inf\"} 3\n",
           "# TYPE nothing_total counter\n",
       }) {
    EXPECT_NE(response.find(line), std::string::npos) << line << "\n" << response;
  }
}

TEST(MetricsServer, EveryLookAsksAnew) {
  std::atomic<int> looks{0};
  const auto server = serve([&](MetricVisitor& visitor) { visitor.gauge("looks", "x", ++looks); });
  EXPECT_NE(HttpPeer::get(server->url()).find("\nlooks 1\n"), std::string::npos);
  EXPECT_NE(HttpPeer::get(server->url(), "/metrics?a=b").find("\nlooks 2\n"), std::string::npos);
  EXPECT_EQ(looks, 2);
}

TEST(MetricsServer, ServesOverIpv6) {
  auto socket = listen_on({"", "::1", 0});
  if (!socket.has_value()) GTEST_SKIP() << "hardware: no IPv6 here: " << socket.error().message;
  const auto server = MetricsServer::start(std::move(*socket), describe_one);
  EXPECT_TRUE((*server)->url().starts_with("http://[::1]:")) << (*server)->url();
  EXPECT_TRUE(is_ok(HttpPeer::get((*server)->url())));
}

TEST(MetricsServer, OtherRequestsAreToldOff) {
  std::atomic<int> looks{0};
  const auto server = serve([&](MetricVisitor&) { ++looks; });
  EXPECT_TRUE(HttpPeer::get(server->url(), "/").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(HttpPeer::get(server->url(), "/metrics/").starts_with("HTTP/1.1 404 "));
  const auto answer = [&](const std::string& said) {
    HttpPeer peer(server->url());
    peer.say(said);
    return peer.hear();
  };
  EXPECT_TRUE(answer("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
  for (const char* nonsense : {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", " \r\n\r\n",
                               "GET /metrics FTP/1\r\n\r\n", "FPC1\1\r\n\r\n"}) {
    EXPECT_TRUE(answer(nonsense).starts_with("HTTP/1.1 400 ")) << nonsense;
  }
  EXPECT_EQ(looks, 0);
}

TEST(MetricsServer, RequestWithoutEndIsCutOff) {
  const auto server = serve(describe_one);
  HttpPeer peer(server->url());
  peer.say("GET /metrics HTTP/1.1\r\nX: " + std::string(20'000, 'x'));
  EXPECT_EQ(peer.hear(), "");
}

TEST(MetricsServer, RequestMayComeInPieces) {
  const auto server = serve(describe_one);
  HttpPeer peer(server->url());
  for (const char c : std::string("GET /metrics HTTP/1.1\r\n\r\n")) peer.say({c});
  EXPECT_TRUE(is_ok(peer.hear()));
}

TEST(MetricsServer, WhoSaysNothingKeepsNobodyWaiting) {
  const auto server = serve(describe_one);
  const std::vector<HttpPeer> silent = [&] {
    std::vector<HttpPeer> peers;
    for (int i = 0; i < 20; ++i) peers.emplace_back(server->url());
    return peers;
  }();
  EXPECT_TRUE(is_ok(HttpPeer::get(server->url())));
}

TEST(MetricsServer, WhoSaysNothingForLongIsCutOff) {
  const auto server = serve(describe_one);
  std::vector<HttpPeer> silent;
  for (int i = 0; i < 40; ++i) silent.emplace_back(server->url());  // more than it takes at once
  EXPECT_EQ(silent.front().hear(), "");
  EXPECT_TRUE(is_ok(HttpPeer::get(server->url())));
}

TEST(MetricsServer, LongResponseComesWhole) {
  constexpr int kSamples = 100'000;
  const auto server = serve([&](MetricVisitor& visitor) {
    visitor.family("many", "x", MetricKind::kGauge);
    for (int i = 0; i < kSamples; ++i) visitor.value({{"i", std::to_string(i)}}, i);
  });
  const std::string response = HttpPeer::get(server->url());
  EXPECT_GT(response.size(), 2'000'000u);
  EXPECT_TRUE(response.ends_with("many{i=\"99999\"} 99999\n"));
}

TEST(MetricsServer, DestructorWaitsForALookAndNoneFollows) {
  std::atomic<bool> looking{false};
  std::atomic<bool> go_on{false};
  std::atomic<bool> looked{false};
  auto server = serve([&](MetricVisitor&) {
    looking = true;
    looking.notify_all();
    go_on.wait(false);
    looked = true;
  });
  HttpPeer peer(server->url());
  peer.say("GET /metrics HTTP/1.1\r\n\r\n");
  looking.wait(false);
  std::thread ending([&] {
    server.reset();
    EXPECT_TRUE(looked);
  });
  go_on = true;
  go_on.notify_all();
  ending.join();
}

}  // namespace
}  // namespace farpage
