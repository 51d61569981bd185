#include "net/listener.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/net/open_port.h"
#include "tests/support/certificates.h"
#include "tests/support/process_usage.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

constexpr uint64_t kIntroductionNs = 5 * kSecond;

Address at(const std::string& text) {
  return parse_address(text).value();
}

const Listener::Handlers kNobody = {[](auto, const auto&) {}, [](auto, const auto&) {}};

TEST(Listener, TellsThePortThatWasChosen) {
  OpenPort port;
  EXPECT_NE(port.address().port, 0);
  EXPECT_EQ(port.address().host, "127.0.0.1");
  EXPECT_TRUE(port.dial().has_value());
}

TEST(Listener, PortInUseIsRefusedAndItsOwnerServesOn) {
  OpenPort port;
  const auto second = Listener::listen(port.address(), {}, kNobody);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kExists);
  expect_says(second.error(), "choose another port");
  EXPECT_TRUE(port.dial().has_value());
}

TEST(Listener, PortIsFreeAgainAtOnce) {
  const Address address = [] {
    OpenPort port;
    EXPECT_TRUE(port.dial().has_value());
    return port.address();
  }();
  const auto again = Listener::listen(address, {}, kNobody);
  EXPECT_TRUE(again.has_value()) << again.error().message;
}

TEST(Listener, AddressesThatAreNotOursAreRefusedWithAReason) {
  const auto elsewhere = Listener::listen(at("tcp://192.0.2.1:0"), {}, kNobody);
  ASSERT_FALSE(elsewhere.has_value());
  expect_says(elsewhere.error(), "choose an address of this machine");
  const auto unknown = Listener::listen(at("tcp://no-node.invalid:0"), {}, kNobody);
  ASSERT_FALSE(unknown.has_value());
  expect_says(unknown.error(), "'no-node.invalid'");
}

TEST(Listener, Ipv6IsServed) {
  auto listener = Listener::listen(at("tcp://[::1]:0"), {}, kNobody);
  if (!listener) GTEST_SKIP() << "hardware: no IPv6 here: " << listener.error().message;
  EXPECT_EQ(format_address((*listener)->address()).find("tcp://[::1]:"), 0u);
  const auto client = dial((*listener)->address(), {}, {}, soon());
  EXPECT_TRUE(client.has_value()) << client.error().message;
}

TEST(Listener, AllAddressesAreIpv4Too) {
  auto listener = Listener::listen(at("tcp://[::]:0"), {}, kNobody);
  if (!listener) GTEST_SKIP() << "hardware: no IPv6 here: " << listener.error().message;
  Address address = (*listener)->address();
  address.host = "127.0.0.1";
  const auto client = dial(address, {}, {}, soon());
  EXPECT_TRUE(client.has_value()) << client.error().message;
}

TEST(Listener, NameWithSeveralAddressesIsServedOnOneThatIsThere) {
  auto listener = Listener::listen(at("tcp://localhost:0"), {}, kNobody);
  ASSERT_TRUE(listener.has_value()) << listener.error().message;
  const auto client = dial((*listener)->address(), {}, {}, soon());
  EXPECT_TRUE(client.has_value()) << client.error().message;
}

// Looks at all of them at once; empty if some have not ended.
std::vector<uint64_t> times_of_ends(const std::vector<UniqueFd>& fds) {
  std::vector<pollfd> waits;
  for (const UniqueFd& fd : fds) waits.push_back({fd.get(), POLLIN, 0});
  std::vector<uint64_t> times(fds.size());
  std::array<char, 4096> bytes;
  for (size_t left = fds.size(); left > 0;) {
    if (::poll(waits.data(), waits.size(), 20'000) <= 0) return {};
    const uint64_t now = boottime_clock().now_ns();
    for (size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      const ssize_t got = ::recv(waits[i].fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0 || (got < 0 && errno == EAGAIN)) continue;
      times[i] = now;
      waits[i].fd = -1;
      --left;
    }
  }
  return times;
}

TEST(Listener, WhoSaysNothingOrHalfOfItIsDroppedAfterItsTime) {
  const TempDir dir;
  const TestCa ca(dir / "");
  const NodeCredentials open = {};
  const NodeCredentials secured = {{}, TlsContext::for_node(ca.issue("node")).value()};
  OpenPort ports[] = {OpenPort(open), OpenPort(secured)};
  std::vector<UniqueFd> silent;
  const uint64_t start = boottime_clock().now_ns();
  for (OpenPort& port : ports) {
    for (const std::string& words :
         {std::string(), std::string("F"), std::string(47, 'F'), std::string("\x16\x03\x01")}) {
      silent.push_back(port.connect());
      ::send(silent.back().get(), words.data(), words.size(), MSG_NOSIGNAL);
    }
  }
  const std::vector<uint64_t> ended = times_of_ends(silent);
  ASSERT_EQ(ended.size(), silent.size());
  for (size_t i = 0; i < ended.size(); ++i) {
    const uint64_t took = ended[i] - start;
    // In the clear, to a node with TLS: told at once. Everything else has its time.
    if (i == 5 || i == 6) {
      EXPECT_LT(took, kIntroductionNs / 2) << i;
    } else {
      EXPECT_GE(took, kIntroductionNs) << i;
      EXPECT_LT(took, kIntroductionNs + 10 * kSecond) << i;
    }
  }
}

TEST(Listener, PlainClientOfATlsNodeIsToldAtOnce) {
  const TempDir dir;
  const TestCa ca(dir / "");
  OpenPort port({{}, TlsContext::for_node(ca.issue("node")).value()});
  const UniqueFd fd = port.connect();
  ASSERT_EQ(::send(fd.get(), "F", 1, MSG_NOSIGNAL), 1);
  EXPECT_TRUE(ends(fd, kIntroductionNs / 2));
}

class ListenerFlood : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Over, ListenerFlood, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Tls" : "Tcp"; });

// Each sends half a greeting, or half a ClientHello, and stays.
TEST_P(ListenerFlood, TenThousandStrangersCostLittleAndKeepNobodyOut) {
  constexpr size_t kStrangers = 10'000;
  constexpr size_t kMostKept = 512;
  if (!allow_descriptors(kStrangers + kMostKept + 500)) {
    GTEST_SKIP() << "hardware: this machine lets a process open too few descriptors";
  }
  NodeCredentials node = {SharedToken{"the token of this test"}, nullptr};
  ClientCredentials good = {node.token, nullptr};
  std::string half("FPGN\1\0\0\0", 8);
  const TempDir dir;
  if (GetParam()) {
    const TestCa ca(dir / "");
    node.tls = TlsContext::for_node(ca.issue("node")).value();
    good.tls = TlsContext::for_client({"", "", ca.file()}).value();
    half = std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(200, 'r');
  }
  OpenPort port(node);
  const size_t descriptors = open_descriptors();
  const size_t resident = resident_bytes();
  std::vector<UniqueFd> strangers(kStrangers);
  std::atomic<size_t> connected = 0;
  std::thread flood([&] {
    for (UniqueFd& stranger : strangers) {
      stranger = port.connect();
      ASSERT_TRUE(stranger.valid()) << std::strerror(errno);
      ::send(stranger.get(), half.data(), half.size(), MSG_NOSIGNAL);
      ++connected;
    }
  });
  // A client with the token, all the while.
  size_t met = 0;
  uint64_t slowest_ns = 0;
  while (connected < kStrangers) {
    const uint64_t start = boottime_clock().now_ns();
    const auto client = port.dial(good);
    ASSERT_TRUE(client.has_value()) << client.error().message;
    slowest_ns = std::max(slowest_ns, boottime_clock().now_ns() - start);
    EXPECT_NE(port.guest().first, nullptr);
    ++met;
  }
  flood.join();
  EXPECT_TRUE(port.dial(good).has_value());
  EXPECT_NE(port.guest().first, nullptr);
  EXPECT_GT(met, 0u);
  EXPECT_LT(slowest_ns, 5 * kSecond);
  EXPECT_LE(open_descriptors(), descriptors + kStrangers + kMostKept + 10);
  EXPECT_TRUE(has_taken_less_than(64 * 1024 * 1024, resident)) << resident_bytes();
  // The first that came are gone, the last are still waited for.
  EXPECT_TRUE(ends(strangers.front()));
}

TEST(Listener, MayGoWhileConnectionsAreHalfWay) {
  const TempDir dir;
  const TestCa ca(dir / "");
  const NodeCredentials secured = {{}, TlsContext::for_node(ca.issue("node")).value()};
  for (int round = 0; round < 20; ++round) {
    const size_t before = open_descriptors();
    {
      auto port = std::make_unique<OpenPort>(round % 2 == 0 ? NodeCredentials{} : secured);
      std::vector<UniqueFd> silent;
      for (size_t i = 0; i < 30; ++i) {
        silent.push_back(port->connect());
        const std::string words = i % 3 == 0 ? "" : std::string(i, i % 3 == 1 ? 'F' : '\x16');
        ::send(silent.back().get(), words.data(), words.size(), MSG_NOSIGNAL);
      }
      std::atomic<bool> stop = false;
      std::thread more([&, address = port->address()] {
        while (!stop) (void)dial(address, {}, {}, soon(100 * kMillisecond));
      });
      port->close();
      for (const UniqueFd& fd : silent) EXPECT_TRUE(ends(fd));
      stop = true;
      more.join();
    }
    EXPECT_EQ(open_descriptors(), before);
  }
}

}  // namespace
}  // namespace farpage
