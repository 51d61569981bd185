#include "net/security/greeting.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/net/pair.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

const SharedToken kToken = {"the token of this test"};
const SharedToken kOther = {"the token of another test"};

// As docs/formats/greeting.md has it, and not as the code has it.
std::string bytes_of(uint32_t number) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}
std::string opening(uint32_t kind = 1, const std::string& magic = "FPGN", uint32_t version = 1) {
  return magic + bytes_of(version) + bytes_of(kind) + bytes_of(0) + std::string(32, 'c');
}
std::string proof(const std::string& token, const std::string& side, uint32_t kind,
                  const std::string& node_nonce, const std::string& channel) {
  const std::string text = "farpage 1 " + side + " " + std::to_string(kind) + ":" +
                           std::string(32, 'c') + node_nonce + channel;
  std::string result(32, '\0');
  HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(result.data()), nullptr);
  return result;
}

struct Met {
  Result<void> client;
  HandshakeServer::State node = HandshakeServer::State::kReading;
  Introduction introduction;
  std::string refusal;
};

// Both parts of the code against one another.
Met meet(const SharedToken& client_token, const SharedToken& node_token,
         const Introduction& introduction = {}) {
  auto [client_fd, node_fd] = socket_pair();
  Met met;
  std::thread node([&, fd = std::move(node_fd)]() mutable {
    PlainStream stream(std::move(fd));
    HandshakeServer handshake(node_token);
    met.node = receive(handshake, stream, soon());
    met.introduction = handshake.introduction();
    met.refusal = handshake.refusal();
  });
  {
    PlainStream stream(std::move(client_fd));
    met.client = handshake_as_client(stream, client_token, introduction, "tcp://node:1", soon());
  }
  node.join();
  return met;
}

// A client that is bytes in this test's hands, against a node.
class RawClient : public ::testing::Test {
 protected:
  void begin(const SharedToken& token) { handshake_.emplace(token); }
  HandshakeServer::State send(const std::string& bytes) {
    EXPECT_EQ(::send(client_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    return handshake_->advance(node_);
  }
  std::string read(size_t bytes) {
    std::string text(bytes, '\0');
    const ssize_t got = ::recv(client_.get(), text.data(), bytes, MSG_DONTWAIT);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return text;
  }

  std::pair<UniqueFd, UniqueFd> pair_ = socket_pair();
  UniqueFd client_ = std::move(pair_.first);
  PlainStream node_{std::move(pair_.second)};
  std::optional<HandshakeServer> handshake_;
};

static_assert(!std::is_copy_constructible_v<HandshakeServer>);  // it points into itself

TEST(Greeting, BothWithTheTokenOrBothWithoutAccept) {
  for (const SharedToken& token : {SharedToken{}, kToken}) {
    Introduction introduction = {ConnectionKind::kData, make_channel_id()};
    const Met met = meet(token, token, introduction);
    EXPECT_TRUE(met.client.has_value()) << met.client.error().message;
    EXPECT_EQ(met.node, HandshakeServer::State::kAccepted) << met.refusal;
    EXPECT_EQ(met.introduction.kind, ConnectionKind::kData);
    EXPECT_EQ(met.introduction.channel, introduction.channel);
  }
}

TEST(Greeting, WrongTokenIsRefusedByTheNode) {
  const Met met = meet(kOther, kToken);
  EXPECT_EQ(met.node, HandshakeServer::State::kRefused);
  ASSERT_FALSE(met.client.has_value());
  EXPECT_EQ(met.client.error().code, Code::kDenied);
  expect_says(met.client.error(), "tcp://node:1 refuses: the client's token is not this node's");
}

TEST(Greeting, ClientWithoutATokenIsToldWhereToNameOne) {
  const Met met = meet({}, kToken);
  EXPECT_EQ(met.node, HandshakeServer::State::kRefused);
  ASSERT_FALSE(met.client.has_value());
  EXPECT_EQ(met.client.error().code, Code::kDenied);
  expect_says(met.client.error(), "security.token_file");
}

TEST(Greeting, NodeThatDoesNotKnowTheTokenIsRefusedByTheClient) {
  const Met met = meet(kToken, {});
  ASSERT_FALSE(met.client.has_value());
  EXPECT_EQ(met.client.error().code, Code::kDenied);
  expect_says(met.client.error(), "does not know this client's token");
}

// Against a node with tenants, and a token of its own or none.
Met meet_tenants(const SharedToken& client_token, const SharedToken& own,
                 const std::vector<SharedToken>& tenants) {
  auto [client_fd, node_fd] = socket_pair();
  Met met;
  std::thread node([&, fd = std::move(node_fd)]() mutable {
    PlainStream stream(std::move(fd));
    HandshakeServer handshake(own, tenants);
    met.node = receive(handshake, stream, soon());
    met.introduction = handshake.introduction();
  });
  {
    PlainStream stream(std::move(client_fd));
    met.client = handshake_as_client(
        stream, client_token, {ConnectionKind::kData, make_channel_id()}, "tcp://node:1", soon());
  }
  node.join();
  return met;
}

TEST(Greeting, TokenTellsWhichTenantItIsAndTheNodeProvesTheSame) {
  const std::vector<SharedToken> tenants = {kOther, SharedToken{"the token of a third test"}};
  for (const SharedToken& own : {SharedToken{}, kToken}) {
    for (size_t i = 0; i < tenants.size(); ++i) {
      const Met met = meet_tenants(tenants[i], own, tenants);
      ASSERT_TRUE(met.client.has_value()) << met.client.error().message;
      EXPECT_EQ(met.introduction.tenant, i);
    }
  }
  const Met met = meet_tenants(kToken, kToken, tenants);
  EXPECT_TRUE(met.client.has_value());
  EXPECT_EQ(met.introduction.tenant, std::nullopt);
}

TEST(Greeting, WithTenantsNobodyComesInWithoutOneOfTheirTokens) {
  const std::vector<SharedToken> tenants = {kOther};
  for (const SharedToken& shown : {SharedToken{}, SharedToken{"the token of a third test"}}) {
    for (const SharedToken& own : {SharedToken{}, kToken}) {
      const Met met = meet_tenants(shown, own, tenants);
      EXPECT_EQ(met.node, HandshakeServer::State::kRefused);
      ASSERT_FALSE(met.client.has_value());
      EXPECT_EQ(met.client.error().code, Code::kDenied);
    }
  }
}

// The node's answer is the one that the client sent: whoever has no token can at most send that
// back.
TEST(Greeting, ClientsOwnProofSentBackIsNoProofOfTheNode) {
  auto [client_fd, node_fd] = socket_pair();
  std::thread node([fd = std::move(node_fd)]() mutable {
    PlainStream stream(std::move(fd));
    std::string text(48, '\0');
    (void)read_all(stream, std::as_writable_bytes(std::span(text)), soon());
    const std::string challenge = "FPGN" + bytes_of(1) + bytes_of(0) + bytes_of(0) + bytes_of(1) +
                                  bytes_of(0) + std::string(32, 'n');
    (void)write_all(stream, std::as_bytes(std::span(challenge)), soon());
    (void)read_all(stream, std::as_writable_bytes(std::span(text)), soon());
    const std::string answer = bytes_of(0) + bytes_of(0) + text.substr(16);
    (void)write_all(stream, std::as_bytes(std::span(answer)), soon());
  });
  PlainStream stream(std::move(client_fd));
  const auto met = handshake_as_client(stream, kToken, {}, "node", soon());
  node.join();
  ASSERT_FALSE(met.has_value());
  EXPECT_EQ(met.error().code, Code::kDenied);
}

// A proof with the empty token is what a node without a token of its own would itself compute.
TEST_F(RawClient, EmptyTokenIsNoTenants) {
  const std::vector<SharedToken> tenants = {kOther};
  handshake_.emplace(SharedToken{}, tenants);
  EXPECT_EQ(send(opening()), HandshakeServer::State::kReading);
  const std::string challenge = read(56);
  ASSERT_EQ(challenge.size(), 56u);
  EXPECT_EQ(challenge.substr(16, 4), bytes_of(1)) << "a token is asked for";
  const std::string channel(16, '\0');
  EXPECT_EQ(send(channel + proof("", "client", 1, challenge.substr(24), channel)),
            HandshakeServer::State::kRefused);
}

TEST_F(RawClient, SpeaksByteForByteAsTheFormatSays) {
  begin(kToken);
  EXPECT_EQ(send(opening(2)), HandshakeServer::State::kReading);
  const std::string challenge = read(1000);
  ASSERT_EQ(challenge.size(), 56u);
  EXPECT_EQ(challenge.substr(0, 24),
            "FPGN" + bytes_of(1) + bytes_of(0) + bytes_of(0) + bytes_of(1) + bytes_of(0));
  const std::string channel = "channel no. four";
  EXPECT_EQ(send(channel + proof(kToken.secret, "client", 2, challenge.substr(24), channel)),
            HandshakeServer::State::kAccepted);
  EXPECT_EQ(read(1000), bytes_of(0) + bytes_of(0) +
                            proof(kToken.secret, "node", 2, challenge.substr(24), channel));
  EXPECT_EQ(std::memcmp(handshake_->introduction().channel.data(), channel.data(), 16), 0);
}

TEST_F(RawClient, ProofOfAnotherConnectionKindChannelOrSideIsRefused) {
  const std::string channel(16, 'd');
  for (int wrong = 0; wrong < 5; ++wrong) {
    begin(kToken);
    ASSERT_EQ(send(opening(1)), HandshakeServer::State::kReading);
    const std::string nonce = read(56).substr(24);
    const std::string shown =
        wrong == 0   ? proof(kToken.secret, "client", 1, std::string(32, 'n'), channel)  // replayed
        : wrong == 1 ? proof(kToken.secret, "client", 2, nonce, channel)
        : wrong == 2 ? proof(kToken.secret, "client", 1, nonce, std::string(16, 'e'))
        : wrong == 3 ? proof(kToken.secret, "node", 1, nonce, channel)
                     : proof(kToken.secret, "client", 1, nonce, channel);
    const auto expected =
        wrong == 4 ? HandshakeServer::State::kAccepted : HandshakeServer::State::kRefused;
    EXPECT_EQ(send(channel + shown), expected) << wrong;
    const std::string answer = read(1000);
    if (wrong == 4) continue;
    EXPECT_EQ(answer.substr(0, 4), bytes_of(static_cast<uint32_t>(Code::kDenied)));
    EXPECT_EQ(answer.substr(8, 32), std::string(32, '\0')) << "no proof for who has given none";
  }
}

TEST_F(RawClient, ProofWithOneBitChangedIsRefused) {
  for (size_t bit = 0; bit < 256; ++bit) {
    begin(kToken);
    ASSERT_EQ(send(opening(1)), HandshakeServer::State::kReading);
    std::string shown =
        proof(kToken.secret, "client", 1, read(56).substr(24), std::string(16, '\0'));
    shown[bit / 8] = static_cast<char>(shown[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_EQ(send(std::string(16, '\0') + shown), HandshakeServer::State::kRefused) << bit;
    (void)read(1000);
  }
}

TEST_F(RawClient, NonceIsNewEveryTime) {
  std::vector<std::string> nonces;
  for (int i = 0; i < 20; ++i) {
    begin(kToken);
    ASSERT_EQ(send(opening()), HandshakeServer::State::kReading);
    nonces.push_back(read(56).substr(24));
    (void)send(std::string(48, 'x'));
    (void)read(1000);
  }
  std::sort(nonces.begin(), nonces.end());
  EXPECT_EQ(std::adjacent_find(nonces.begin(), nonces.end()), nonces.end());
}

TEST_F(RawClient, OtherVersionMagicAndKindAreRefusedWithASentence) {
  begin({});
  EXPECT_EQ(send(opening(1, "FPGN", 2)), HandshakeServer::State::kRefused);
  std::string refusal = read(1000);
  EXPECT_EQ(refusal.substr(0, 12),
            "FPGN" + bytes_of(1) + bytes_of(static_cast<uint32_t>(Code::kProtocol)));
  EXPECT_EQ(refusal.size(), 56 + static_cast<size_t>(static_cast<unsigned char>(refusal[12])) +
                                256 * static_cast<unsigned char>(refusal[13]));
  EXPECT_NE(refusal.find("run the same version of farpage on both"), std::string::npos);

  begin({});
  EXPECT_EQ(send("GET / HTTP/1.1\r\nHost: node\r\nUser-Agent: somebody"),
            HandshakeServer::State::kRefused);
  EXPECT_NE(read(1000).find("speaks something else"), std::string::npos);
}

TEST_F(RawClient, UnknownKindIsRefused) {
  for (const uint32_t kind : {0u, 3u, UINT32_MAX}) {
    begin({});
    ASSERT_EQ(send(opening(kind)), HandshakeServer::State::kReading);
    (void)read(56);
    EXPECT_EQ(send(std::string(48, '\0')), HandshakeServer::State::kRefused);
    EXPECT_NE(read(1000).find("are unknown"), std::string::npos);
  }
}

TEST_F(RawClient, EveryTruncationIsReadOnAndThenGivenUp) {
  const std::string whole = opening() + std::string(48, '\0');
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    auto [client, node] = socket_pair();
    PlainStream stream(std::move(node));
    HandshakeServer handshake({});
    ASSERT_EQ(::send(client.get(), whole.data(), bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    ASSERT_EQ(handshake.advance(stream), HandshakeServer::State::kReading) << bytes;
    EXPECT_EQ(handshake.events(), POLLIN);
    client.reset();
    ASSERT_EQ(handshake.advance(stream), HandshakeServer::State::kRefused) << bytes;
  }
}

TEST_F(RawClient, GreetingThatComesByteByByteIsAccepted) {
  begin({});
  const std::string whole = opening() + std::string(48, '\0');
  for (size_t i = 0; i + 1 < whole.size(); ++i) {
    ASSERT_EQ(send(whole.substr(i, 1)), HandshakeServer::State::kReading) << i;
  }
  EXPECT_EQ(send(whole.substr(whole.size() - 1)), HandshakeServer::State::kAccepted);
}

// Bytes after the greeting are not part of it.
TEST_F(RawClient, BytesBehindTheGreetingAreLeft) {
  begin({});
  EXPECT_EQ(send(opening() + std::string(48, '\0') + "first frame"),
            HandshakeServer::State::kAccepted);
  std::string rest(100, '\0');
  EXPECT_EQ(::recv(node_.fd(), rest.data(), rest.size(), MSG_DONTWAIT), 11);
}

// A node that is bytes in this test's hands, against a client.
Error fooled(const std::string& node_says, const SharedToken& token = {}) {
  auto [client_fd, node_fd] = socket_pair();
  EXPECT_EQ(::send(node_fd.get(), node_says.data(), node_says.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(node_says.size()));
  ::shutdown(node_fd.get(), SHUT_WR);
  PlainStream stream(std::move(client_fd));
  const auto met = handshake_as_client(stream, token, {}, "tcp://node:1", soon());
  return met ? Error{Code::kOk, ""} : met.error();
}

std::string challenge(uint32_t code = 0, uint32_t message_bytes = 0, uint32_t version = 1,
                      uint32_t asks_token = 0, const std::string& magic = "FPGN") {
  return magic + bytes_of(version) + bytes_of(code) + bytes_of(message_bytes) +
         bytes_of(asks_token) + bytes_of(0) + std::string(32, 'n');
}
std::string answer(uint32_t code = 0, uint32_t message_bytes = 0) {
  return bytes_of(code) + bytes_of(message_bytes) + std::string(32, 'p');
}

TEST(HandshakeClient, EveryTruncationOfTheNodeIsAnError) {
  const std::string whole = challenge() + answer();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_EQ(fooled(whole.substr(0, bytes)).code, Code::kUnavailable) << bytes;
  }
  EXPECT_EQ(fooled(whole).code, Code::kOk);
}

TEST(HandshakeClient, OtherMagicAndVersionAreRefused) {
  const Error other = fooled(challenge(0, 0, 1, 0, "HTTP"));
  EXPECT_EQ(other.code, Code::kProtocol);
  expect_says(other, "is not a memory node");
  const Error newer = fooled(challenge(0, 0, 2));
  EXPECT_EQ(newer.code, Code::kProtocol);
  expect_says(newer, "run the same version of farpage on both");
}

TEST(HandshakeClient, RefusalIsTheNodesOwnAndPrintable) {
  const auto exhausted = static_cast<uint32_t>(Code::kExhausted);
  const Error full = fooled(challenge(exhausted, 4) + "full");
  EXPECT_EQ(full.code, Code::kExhausted);
  expect_says(full, "tcp://node:1 refuses: full");
  expect_says(fooled(challenge() + answer(exhausted, 4) + "full"), "refuses: full");
  expect_says(fooled(challenge(exhausted, 6) + "\x1b[31m\xff"), "refuses: ?[31m?");
  // Lengths that lie.
  expect_says(fooled(challenge(exhausted, 5) + "full"), "does not say why");
  expect_says(fooled(challenge(exhausted, UINT32_MAX) + std::string(600, 'x')),
              "refuses: " + std::string(512, 'x'));
  EXPECT_EQ(fooled(challenge(UINT32_MAX, 0)).code, Code::kProtocol);
}

// A process that exits with a client open dials on while the C library runs its exit handlers.
TEST(Nonce, IsMadeAlsoOnceOpenSslHasEnded) {
  EXPECT_EXIT(
      {
        OPENSSL_cleanup();
        const bool differ = make_nonce() != make_nonce() && make_channel_id() != make_channel_id();
        _exit(differ ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(HandshakeClient, SilentNodeIsAnErrorAtTheDeadline) {
  const auto [client_fd, node_fd] = socket_pair();
  PlainStream stream(UniqueFd(::fcntl(client_fd.get(), F_DUPFD_CLOEXEC, 0)));
  const uint64_t deadline = soon(30 * kMillisecond);
  const auto met = handshake_as_client(stream, {}, {}, "tcp://node:1", deadline);
  ASSERT_FALSE(met.has_value());
  EXPECT_EQ(met.error().code, Code::kTimeout);
  expect_says(met.error(), "is it stopped");
  EXPECT_GE(boottime_clock().now_ns(), deadline);
}

class TokenFile : public ::testing::Test {
 protected:
  std::string write(const std::string& text, mode_t mode = 0600) {
    std::string path = dir_ / "token";
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  TempDir dir_;
};

TEST_F(TokenFile, WhiteSpaceAtItsEndsIsNotPartOfIt) {
  const auto token = SharedToken::load(write(" \t0123456789 abcdef\r\n\n"));
  ASSERT_TRUE(token.has_value()) << token.error().message;
  EXPECT_EQ(token->secret, "0123456789 abcdef");
}

TEST_F(TokenFile, ShortEmptyAndMissingOnesAreRefusedWithTheCommandThatMakesOne) {
  for (const char* text : {"", " \n", "123456789012345", "123456789012345 \n"}) {
    const auto token = SharedToken::load(write(text));
    ASSERT_FALSE(token.has_value()) << text;
    expect_says(token.error(), "openssl rand -hex 32");
    expect_says(token.error(), " bytes");
  }
  EXPECT_TRUE(SharedToken::load(write("1234567890123456")).has_value());
  const auto token = SharedToken::load(dir_ / "missing");
  ASSERT_FALSE(token.has_value());
  expect_says(token.error(), "cannot read the token");
  expect_says(token.error(), "copy the token there that the nodes and their clients share");
}

TEST_F(TokenFile, FileThatOthersMayReadIsRefused) {
  for (const mode_t mode : {0620, 0604, 0660, 0666}) {
    const auto token = SharedToken::load(write("1234567890123456", mode));
    ASSERT_FALSE(token.has_value()) << mode;
    EXPECT_EQ(token.error().code, Code::kDenied);
    expect_says(token.error(), "chmod 600");
  }
}

}  // namespace
}  // namespace farpage
