#include "net/security/watched_credentials.h"

#include <openssl/ssl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "net/dial.h"
#include "net/listener.h"
#include "tests/net/pair.h"
#include "tests/support/certificates.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

const Listener::Handlers kNobody = {[](auto, const auto&) {}, [](auto, const auto&) {}};

// Asks again and again, and has the files looked at meanwhile.
bool becomes(const std::function<bool()>& is_so) {
  const uint64_t deadline = soon();
  while (!is_so()) {
    if (boottime_clock().now_ns() > deadline) return false;
    read_secrets_again();
    std::this_thread::yield();
  }
  return true;
}

class WatchedCredentials : public ::testing::Test {
 protected:
  std::string write_token(const std::string& text) {
    const std::string path = dir_ / "token";
    std::ofstream(path + ".new") << text;
    EXPECT_EQ(::chmod((path + ".new").c_str(), 0600), 0);
    std::filesystem::rename(path + ".new", path);
    return path;
  }
  static Result<std::unique_ptr<Stream>> dial_to(const Listener& listener,
                                                 const ClientCredentials& credentials) {
    return dial(listener.address(), credentials, {.kind = ConnectionKind::kControl}, soon());
  }

  TempDir dir_;
  TestCa ca_{dir_ / ""};
};

TEST_F(WatchedCredentials, TokenIsNewForNewConnections) {
  const std::string path = write_token("the first token of this test");
  const auto token = watch_token(path).value();
  const auto listener =
      Listener::listen(parse_address("tcp://127.0.0.1:0").value(), {token, nullptr}, kNobody)
          .value();
  const ClientCredentials first = {SharedToken{"the first token of this test"}, nullptr};
  const ClientCredentials second = {SharedToken{"the second token of this test"}, nullptr};
  EXPECT_TRUE(dial_to(*listener, first).has_value());
  EXPECT_FALSE(dial_to(*listener, second).has_value());
  write_token("the second token of this test");
  EXPECT_TRUE(becomes([&] { return token.value().secret == "the second token of this test"; }));
  EXPECT_FALSE(dial_to(*listener, first).has_value());
  EXPECT_TRUE(dial_to(*listener, second).has_value());
  EXPECT_TRUE(dial_to(*listener, {token, nullptr}).has_value());
}

TEST_F(WatchedCredentials, TenantsTokenIsNewForNewConnections) {
  const std::string path = write_token("the first token of a tenant");
  NodeCredentials credentials;
  credentials.tenants = {watch_token(path).value()};
  std::atomic<int> tenants = 0;
  const auto take = [&](auto, const Introduction& introduction) {
    tenants += introduction.tenant == size_t{0} ? 1 : 0;
  };
  const auto listener =
      Listener::listen(parse_address("tcp://127.0.0.1:0").value(), credentials, {take, take})
          .value();
  write_token("the second token of a tenant");
  EXPECT_TRUE(becomes(
      [&] { return credentials.tenants[0].value().secret == "the second token of a tenant"; }));
  EXPECT_TRUE(
      dial_to(*listener, {SharedToken{"the second token of a tenant"}, nullptr}).has_value());
  EXPECT_TRUE(becomes([&] { return tenants == 1; }));
}

// Of a certificate that ends in an hour, and one that ends in two.
TEST_F(WatchedCredentials, CertificateIsNewAtBothEndsAndOldConnectionsStay) {
  const TlsFiles files = ca_.issue("node");
  const TlsFiles client_files = ca_.issue("client");
  TlsFiles strict = files;
  strict.ca = ca_.file();
  const NodeCredentials node = {{}, watch_node_tls(strict).value()};
  const ClientCredentials client = {
      {}, watch_client_tls({client_files.certificate, client_files.key, ca_.file()}).value()};
  std::vector<std::unique_ptr<Stream>> streams;
  std::mutex mutex;
  const auto take = [&](std::unique_ptr<Stream> stream, const auto&) {
    const std::lock_guard lock(mutex);
    streams.push_back(std::move(stream));
  };
  const auto listener =
      Listener::listen(parse_address("tcp://127.0.0.1:0").value(), node, {take, take}).value();
  const auto old = dial_to(*listener, client).value();

  const int64_t before_s = node.tls.get()->expires_s();
  TestCa::Wish longer;
  longer.ends_s = 7200;
  ca_.issue("node", longer);
  ca_.issue("client", longer);
  EXPECT_TRUE(becomes([&] {
    return node.tls.get()->expires_s() > before_s && client.tls.get()->expires_s() > before_s;
  }));
  EXPECT_TRUE(dial_to(*listener, client).has_value());

  std::byte sent{42};
  ASSERT_TRUE(write_all(*old, {&sent, 1}, soon()).has_value());
  std::byte got{};
  const std::lock_guard lock(mutex);
  ASSERT_FALSE(streams.empty());
  ASSERT_TRUE(read_all(*streams.front(), {&got, 1}, soon()).has_value());
  EXPECT_EQ(got, sent);
}

TEST_F(WatchedCredentials, CaIsNewToo) {
  const TlsFiles files = ca_.issue("node");
  const NodeCredentials node = {{}, watch_node_tls(files).value()};
  const auto listener =
      Listener::listen(parse_address("tcp://127.0.0.1:0").value(), node, kNobody).value();
  const TestCa other(dir_ / "", "other");
  const std::string believed = dir_ / "believed.pem";
  std::filesystem::copy_file(other.file(), believed);
  const ClientCredentials client = {{}, watch_client_tls({"", "", believed}).value()};
  EXPECT_FALSE(dial_to(*listener, client).has_value());
  std::ofstream(believed, std::ios::app) << std::ifstream(ca_.file()).rdbuf();  // both
  EXPECT_TRUE(becomes([&] { return dial_to(*listener, client).has_value(); }));
}

TEST_F(WatchedCredentials, HalfARenewalIsNotUsed) {
  const TlsFiles files = ca_.issue("node");
  const auto tls = watch_node_tls(files).value();
  const auto in_use = tls.get();
  const auto token = watch_token(write_token("the first token of this test")).value();
  const TlsFiles next = ca_.issue("next");
  std::filesystem::rename(next.certificate, files.certificate);
  // It is looked at after the certificate, in the same round: once it is new, that was, too.
  write_token("the second token of this test");
  EXPECT_TRUE(becomes([&] { return token.value().secret == "the second token of this test"; }));
  EXPECT_EQ(tls.get(), in_use);
  std::filesystem::rename(next.key, files.key);
  EXPECT_TRUE(becomes([&] { return tls.get() != in_use; }));
}

TEST_F(WatchedCredentials, ThatAreWrongAtFirstAreRefused) {
  EXPECT_FALSE(watch_token(dir_ / "none").has_value());
  EXPECT_FALSE(watch_node_tls({dir_ / "none", dir_ / "none", ""}).has_value());
  EXPECT_TRUE(watch_token("").value().value().secret.empty());
}

}  // namespace
}  // namespace farpage
