#include "net/dial.h"

#include <thread>

#include "tests/net/open_port.h"
#include "tests/support/certificates.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

class Dial : public ::testing::Test {
 protected:
  std::shared_ptr<TlsContext> node_tls(const std::string& client_ca = "") {
    TlsFiles files = ca_.issue("node");
    files.ca = client_ca;
    return TlsContext::for_node(files).value();
  }
  std::shared_ptr<TlsContext> client_tls(TlsFiles shown = {}) {
    shown.ca = ca_.file();
    return TlsContext::for_client(shown).value();
  }

  TempDir dir_;
  TestCa ca_{dir_ / ""};
  const SharedToken token_ = {"the token of this test"};
  const SharedToken other_ = {"the token of another test"};
};

// The first word each way, and who it was.
void expect_talk(OpenPort& port, const ClientCredentials& credentials) {
  const Introduction introduction = {ConnectionKind::kData, make_channel_id()};
  auto client = port.dial(credentials, introduction);
  ASSERT_TRUE(client.has_value()) << client.error().message;
  auto [node, who] = port.guest();
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(who.kind, ConnectionKind::kData);
  EXPECT_EQ(who.channel, introduction.channel);
  for (const auto& [from, to] :
       {std::pair(client->get(), node.get()), {node.get(), client->get()}}) {
    std::string got(5, '\0');
    const std::string sent = "hello";
    EXPECT_TRUE(write_all(*from, std::as_bytes(std::span(sent)), soon()).has_value());
    EXPECT_TRUE(read_all(*to, std::as_writable_bytes(std::span(got)), soon()).has_value());
    EXPECT_EQ(got, "hello");
  }
}

TEST_F(Dial, EveryGoodPairOfCredentialsTalks) {
  for (const SharedToken& token : {SharedToken{}, token_}) {
    OpenPort plain({token, nullptr});
    expect_talk(plain, {token, nullptr});
    OpenPort secured({token, node_tls()});
    expect_talk(secured, {token, client_tls()});
    const TestCa clients(dir_ / "", "clients");
    OpenPort strict({token, node_tls(clients.file())});
    expect_talk(strict, {token, client_tls(clients.issue("friend"))});
  }
}

TEST_F(Dial, IntroductionSaysWhatTheConnectionIsFor) {
  OpenPort port;
  const auto client = port.dial();
  ASSERT_TRUE(client.has_value());
  EXPECT_EQ(port.guest().second.kind, ConnectionKind::kControl);
}

TEST_F(Dial, WrongCredentialsAreDeniedAndLetNobodyIn) {
  const TestCa others(dir_ / "", "others");
  const auto stranger_tls = TlsContext::for_client({"", "", others.file()}).value();
  struct Case {
    const char* what;
    NodeCredentials node;
    ClientCredentials client;
    const char* says;
  };
  const Case cases[] = {
      {"wrong token", {token_, nullptr}, {other_, nullptr}, "token is not this node's"},
      {"no token", {token_, nullptr}, {}, "security.token_file"},
      {"wrong token under TLS", {token_, node_tls()}, {other_, client_tls()}, "token"},
      {"unknown CA", {{}, node_tls()}, {{}, stranger_tls}, "security.tls_ca"},
      {"plain client, TLS node", {{}, node_tls()}, {}, "security.tls = true"},
      {"TLS client, plain node", {}, {{}, client_tls()}, "does the node speak TLS"},
      {"no certificate",
       {{}, node_tls(others.file())},
       {{}, client_tls()},
       "security.tls_certificate"},
      {"other's certificate",
       {{}, node_tls(others.file())},
       {{}, client_tls(ca_.issue("mine"))},
       "security.tls_certificate"},
  };
  for (const Case& bad : cases) {
    OpenPort port(bad.node);
    const auto client = port.dial(bad.client);
    ASSERT_FALSE(client.has_value()) << bad.what;
    EXPECT_EQ(client.error().code, Code::kDenied) << bad.what << ": " << client.error().message;
    EXPECT_NE(client.error().message.find(bad.says), std::string::npos)
        << bad.what << ": " << client.error().message;
    EXPECT_NE(client.error().message.find(format_address(port.address())), std::string::npos);
    port.close();
    EXPECT_EQ(port.count(), 0u) << bad.what;
  }
}

TEST_F(Dial, CertificateOfAnotherHostIsDenied) {
  TestCa::Wish wish;
  wish.names = "DNS:node7.example.com,IP:10.0.0.7";
  OpenPort port({{}, TlsContext::for_node(ca_.issue("node7", wish)).value()});
  const auto client = port.dial({{}, client_tls()});
  ASSERT_FALSE(client.has_value());
  EXPECT_EQ(client.error().code, Code::kDenied);
  expect_says(client.error(), "mismatch");
  expect_says(client.error(), "a name that its certificate shows");
}

TEST_F(Dial, ClosedPortAndUnknownNameSayWhatToDo) {
  OpenPort port;
  const Address address = port.address();
  port.close();
  const auto closed = dial(address, {}, {}, soon());
  ASSERT_FALSE(closed.has_value());
  EXPECT_EQ(closed.error().code, Code::kUnavailable);
  expect_says(closed.error(), "farpage node --listen " + format_address(address));
  const auto unknown = dial(parse_address("tcp://no-node.invalid:1").value(), {}, {}, soon());
  ASSERT_FALSE(unknown.has_value());
  expect_says(unknown.error(), "'no-node.invalid'");
}

// The kernel accepts for a process that is stopped.
TEST_F(Dial, SilentNodeIsAnErrorAtTheDeadline) {
  const UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::listen(listening.get(), 8), 0);
  sockaddr_in bound = {};
  socklen_t bytes = sizeof bound;
  ASSERT_EQ(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&bound), &bytes), 0);
  Address address = parse_address("tcp://127.0.0.1:0").value();
  address.port = ntohs(bound.sin_port);
  for (const auto& tls : {std::shared_ptr<TlsContext>(), client_tls()}) {
    const uint64_t deadline = soon(50 * kMillisecond);
    const auto client = dial(address, {{}, tls}, {}, deadline);
    ASSERT_FALSE(client.has_value());
    EXPECT_EQ(client.error().code, Code::kTimeout);
    expect_says(client.error(), "is it stopped");
    const uint64_t now = boottime_clock().now_ns();
    EXPECT_GE(now, deadline);
    EXPECT_LT(now, deadline + 10 * kSecond);
  }
}

}  // namespace
}  // namespace farpage
