#include "net/security_options.h"

#include <sys/stat.h>

#include <fstream>

#include "tests/net/pair.h"
#include "tests/support/certificates.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

Address at(const std::string& text) {
  return parse_address(text).value();
}

TEST(NodeSecurity, BeyondTheLoopbackItTakesAGuardOrAWord) {
  NodeSecurity open;
  for (const char* near : {"/run/node.sock", "tcp://127.0.0.1:1", "tcp://127.9.8.7:1",
                           "tcp://localhost:1", "tcp://[::1]:1"}) {
    EXPECT_TRUE(open.validate(at(near)).has_value()) << near;
  }
  for (const char* far : {"tcp://0.0.0.0:1", "tcp://[::]:1", "tcp://10.0.0.1:1", "tcp://node7:1",
                          "tcp://127.0.0.1.example.com:1", "tcp://[fe80::1]:1"}) {
    const auto refused = open.validate(at(far));
    ASSERT_FALSE(refused.has_value()) << far;
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    for (const char* way : {far, "security.token_file", "openssl rand", "security.tls_client_ca",
                            "security.allow_anyone = true"}) {
      expect_says(refused.error(), way);
    }
    NodeSecurity token;
    token.token_file = "token";
    EXPECT_TRUE(token.validate(at(far)).has_value());
    NodeSecurity certificates;
    certificates.tls_certificate = certificates.tls_key = certificates.tls_client_ca = "file";
    EXPECT_TRUE(certificates.validate(at(far)).has_value());
    NodeSecurity encrypted;  // which keeps nobody out
    encrypted.tls_certificate = encrypted.tls_key = "file";
    EXPECT_FALSE(encrypted.validate(at(far)).has_value());
    NodeSecurity anyone;
    anyone.allow_anyone = true;
    EXPECT_TRUE(anyone.validate(at(far)).has_value());
  }
}

TEST(NodeSecurity, HalvesAreRefused) {
  NodeSecurity security;
  security.tls_certificate = "file";
  expect_says(security.validate(at("/sock")).error(), "belong together");
  security = {};
  security.tls_key = "file";
  expect_says(security.validate(at("/sock")).error(), "belong together");
  security = {};
  security.tls_client_ca = "file";
  expect_says(security.validate(at("/sock")).error(), "security.tls_client_ca needs TLS");
}

TEST(ClientSecurity, HalvesAreRefused) {
  ClientSecurity security;
  EXPECT_TRUE(security.validate().has_value());
  security.tls = true;
  EXPECT_TRUE(security.validate().has_value());
  security.tls_key = "file";
  expect_says(security.validate().error(), "belong together");
  for (std::string ClientSecurity::*field :
       {&ClientSecurity::tls_ca, &ClientSecurity::tls_certificate, &ClientSecurity::tls_key}) {
    ClientSecurity without;
    without.*field = "file";
    expect_says(without.validate().error(), "security.tls is not true");
  }
}

TEST(Security, LoadsWhatItNames) {
  const TempDir dir;
  const TestCa ca(dir / "");
  const TlsFiles files = ca.issue("node");
  const std::string token = dir / "token";
  std::ofstream(token) << "a token of this test\n";
  ASSERT_EQ(::chmod(token.c_str(), 0600), 0);

  NodeSecurity node;
  EXPECT_TRUE(node.load().value().tls == nullptr);
  EXPECT_EQ(node.load().value().token.value().secret, "");
  node = {token, files.certificate, files.key, ca.file(), false};
  const auto loaded = node.load();
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->token.value().secret, "a token of this test");
  EXPECT_TRUE(loaded->tls != nullptr);

  ClientSecurity client = {token, true, ca.file(), files.certificate, files.key};
  const auto credentials = client.load();
  ASSERT_TRUE(credentials.has_value()) << credentials.error().message;
  EXPECT_EQ(credentials->token.value().secret, "a token of this test");
  EXPECT_TRUE(credentials->tls != nullptr);
  client.tls = false;
  EXPECT_TRUE(client.load().value().tls == nullptr);

  client.token_file = node.token_file = dir / "missing";
  EXPECT_FALSE(client.load().has_value());
  EXPECT_FALSE(node.load().has_value());
}

}  // namespace
}  // namespace farpage
