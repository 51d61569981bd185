#include "net/security/tls.h"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <random>
#include <vector>

#include "tests/net/pair.h"
#include "tests/support/certificates.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

using Context = std::shared_ptr<TlsContext>;

// Both ends in one thread, which is all that streams need that never block.
struct Handshake {
  Handshake(const Context& node_context, const Context& client_context,
            const std::string& host = "localhost") {
    auto [client_fd, node_fd] = socket_pair();
    client = TlsStream::connect(*client_context, std::move(client_fd), host).value();
    node = TlsStream::accept(*node_context, std::move(node_fd)).value();
    for (int turn = 0; turn < 20; ++turn) {
      step(*client, client_state);
      step(*node, node_state);
    }
  }

  static void step(TlsStream& stream, StreamState& state) {
    if (state == StreamState::kWouldBlock) state = stream.handshake().state;
  }
  bool done() const {
    return client_state == StreamState::kMoved && node_state == StreamState::kMoved;
  }

  std::unique_ptr<TlsStream> client;
  std::unique_ptr<TlsStream> node;
  StreamState client_state = StreamState::kWouldBlock;
  StreamState node_state = StreamState::kWouldBlock;
};

Transfer read_into(Stream& stream, std::string& bytes, size_t most) {
  std::string buffer(most, '\0');
  const iovec part = {buffer.data(), buffer.size()};
  const Transfer got = stream.read({&part, 1});
  bytes.append(buffer.data(), got.bytes);
  return got;
}

Transfer write_of(Stream& stream, std::string_view bytes) {
  const iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  return stream.write({&part, 1});
}

class Tls : public ::testing::Test {
 protected:
  Context node_context(const TlsFiles& files, uint64_t records_per_key = kTlsRecordsPerKey) {
    return TlsContext::for_node(files, records_per_key).value();
  }
  Context client_context(const std::string& ca, uint64_t records_per_key = kTlsRecordsPerKey) {
    return TlsContext::for_client({"", "", ca}, records_per_key).value();
  }

  TempDir dir_;
  TestCa ca_{dir_ / ""};
  TlsFiles files_ = ca_.issue("node");
};

TEST_F(Tls, GoodCertificateIsAcceptedByNameAndByAddress) {
  const Context node = node_context(files_);
  const Context client = client_context(ca_.file());
  for (const char* host : {"localhost", "127.0.0.1", "::1"}) {
    Handshake shake(node, client, host);
    EXPECT_TRUE(shake.done()) << host << ": " << shake.client->failure();
  }
}

TEST_F(Tls, NameAndAddressThatTheCertificateDoesNotShowAreRefused) {
  const Context node = node_context(files_);
  const Context client = client_context(ca_.file());
  for (const char* host : {"example.com", "127.0.0.2", "::2", "localhost.example.com"}) {
    Handshake shake(node, client, host);
    EXPECT_EQ(shake.client_state, StreamState::kEnded) << host;
    EXPECT_TRUE(shake.client->refused());
    EXPECT_NE(shake.client->failure().find("certificate is refused"), std::string::npos)
        << shake.client->failure();
    EXPECT_NE(shake.client->failure().find("mismatch"), std::string::npos)
        << shake.client->failure();
    EXPECT_EQ(shake.node_state, StreamState::kEnded) << "the client says so";
  }
}

TEST_F(Tls, UnknownAuthorityIsRefused) {
  const TestCa other(dir_ / "", "other");
  Handshake shake(node_context(files_), client_context(other.file()));
  EXPECT_EQ(shake.client_state, StreamState::kEnded);
  EXPECT_NE(shake.client->failure().find("certificate"), std::string::npos);
  // Of the machine's own authorities none has signed it either.
  Handshake trusting(node_context(files_), client_context(""));
  EXPECT_EQ(trusting.client_state, StreamState::kEnded);
}

// A file that has expired is refused before anything is sent; a certificate that expires while its
// owner runs is refused by the peer.
TEST_F(Tls, CertificateThatExpiresLaterOnIsRefusedByThePeer) {
  TestCa::Wish wish;
  wish.ends_s = 2;
  const TlsFiles brief = ca_.issue("brief", wish);
  const Context node = node_context(brief);
  const Context client = client_context(ca_.file());
  EXPECT_TRUE(Handshake(node, client).done());
  const uint64_t deadline = soon();
  while (boottime_clock().now_ns() < deadline) {
    Handshake shake(node, client);
    if (shake.done()) continue;
    EXPECT_NE(shake.client->failure().find("expired"), std::string::npos)
        << shake.client->failure();
    EXPECT_NE(shake.client->advice().find("renew"), std::string::npos) << shake.client->advice();
    return;
  }
  FAIL() << "it never expired";
}

TEST_F(Tls, FilesThatCannotBeUsedAreRefusedWithAReason) {
  TestCa::Wish past;
  past.begins_s = -7200;
  past.ends_s = -60;
  TestCa::Wish future;
  future.begins_s = 3600;
  future.ends_s = 7200;
  const TlsFiles other = ca_.issue("other");
  const std::string nonsense = dir_ / "nonsense";
  std::ofstream(nonsense) << "no PEM";
  ASSERT_EQ(::chmod(nonsense.c_str(), 0600), 0);
  struct Case {
    TlsFiles files;
    const char* reason;
  };
  const Case cases[] = {
      {ca_.issue("past", past), "has expired: renew it"},
      {ca_.issue("future", future), "not valid yet"},
      {{files_.certificate, other.key, ""}, "does not belong"},
      {{files_.certificate, dir_ / "missing", ""}, "cannot read the key"},
      {{files_.certificate, nonsense, ""}, "cannot use the key"},
      {{files_.certificate, "", ""}, "cannot read the key"},
      {{dir_ / "missing", files_.key, ""}, "cannot read the certificate"},
      {{nonsense, files_.key, ""}, "cannot use the certificate"},
      {{files_.certificate, files_.key, dir_ / "missing"}, "cannot read the CA's certificate"},
      {{files_.certificate, files_.key, nonsense}, "cannot use the CA's certificate"},
  };
  for (const Case& bad : cases) {
    for (const auto& context :
         {TlsContext::for_node(bad.files), TlsContext::for_client(bad.files)}) {
      ASSERT_FALSE(context.has_value()) << bad.reason;
      EXPECT_EQ(context.error().code, Code::kInvalid);
      expect_says(context.error(), bad.reason);
    }
  }
}

TEST_F(Tls, EndOfTheCertificateIsKnown) {
  const int64_t ends_s = node_context(files_)->expires_s();
  EXPECT_NEAR(static_cast<double>(ends_s), static_cast<double>(std::time(nullptr)) + 3600, 60);
  EXPECT_EQ(client_context(ca_.file())->expires_s(), 0);
}

// The client reports the node's verdict on its certificate in words of its own.
TEST_F(Tls, RefusedClientIsToldWhatIsWrongWithItsCertificate) {
  TestCa::Wish brief;
  brief.ends_s = 2;
  TlsFiles own = ca_.issue("client", brief);
  own.ca = ca_.file();
  const Context client = TlsContext::for_client(own).value();
  TlsFiles strict = files_;
  strict.ca = ca_.file();
  const Context node = node_context(strict);
  const uint64_t deadline = soon();
  while (boottime_clock().now_ns() < deadline) {
    Handshake shake(node, client);
    std::string bytes;
    if (read_into(*shake.client, bytes, 1).state != StreamState::kEnded) continue;
    EXPECT_NE(shake.client->advice().find("security.tls_certificate has expired"),
              std::string::npos)
        << shake.client->advice();
    EXPECT_NE(shake.client->advice("etcd", "etcd").find("etcd.tls_certificate"), std::string::npos);
    return;
  }
  FAIL() << "it never expired";
}

TEST_F(Tls, KeyThatOthersMayUseIsRefused) {
  for (const mode_t rights : {0660u, 0604u, 0620u, 0601u}) {
    ASSERT_EQ(::chmod(files_.key.c_str(), rights), 0);
    for (const auto& context : {TlsContext::for_node(files_), TlsContext::for_client(files_)}) {
      ASSERT_FALSE(context.has_value()) << rights;
      EXPECT_EQ(context.error().code, Code::kDenied);
      expect_says(context.error(), "chmod 600 " + files_.key);
    }
  }
  ASSERT_EQ(::chmod(files_.key.c_str(), 0400), 0);
  EXPECT_TRUE(TlsContext::for_node(files_).has_value());
}

TEST_F(Tls, ClientsCertificateIsAskedForAndChecked) {
  const TestCa client_ca(dir_ / "", "clients");
  TlsFiles strict = files_;
  strict.ca = client_ca.file();
  const Context node = node_context(strict);
  const auto client = [&](TlsFiles shown) {
    shown.ca = ca_.file();
    return TlsContext::for_client(shown).value();
  };
  EXPECT_TRUE(Handshake(node, client(client_ca.issue("friend"))).done());

  Handshake none(node, client_context(ca_.file()));
  EXPECT_EQ(none.node_state, StreamState::kEnded);
  EXPECT_NE(none.node->failure().find("did not return a certificate"), std::string::npos)
      << none.node->failure();
  std::string ignored;
  EXPECT_EQ(read_into(*none.client, ignored, 1).state, StreamState::kEnded);
  EXPECT_TRUE(none.client->refused()) << "the node has said why";

  Handshake stranger(node, client(ca_.issue("stranger")));
  EXPECT_EQ(stranger.node_state, StreamState::kEnded);
  EXPECT_TRUE(stranger.node->refused());

  // One that has expired since it was loaded.
  TestCa::Wish wish;
  wish.ends_s = 2;
  const Context brief = client(client_ca.issue("brief", wish));
  const uint64_t deadline = soon();
  bool refused = false;
  while (!refused && boottime_clock().now_ns() < deadline) {
    Handshake shake(node, brief);
    refused = shake.node_state == StreamState::kEnded;
    if (refused) {
      EXPECT_NE(shake.node->failure().find("expired"), std::string::npos) << shake.node->failure();
    }
  }
  EXPECT_TRUE(refused);
}

TEST_F(Tls, WhatIsNoTlsFailsAndIsNoSignal) {
  for (const std::string& nonsense :
       {std::string("FPGN and so on, in the clear"),
        std::string("\x16\x03\x01\xff\xff") + std::string(500, 'x'), std::string(300, '\0')}) {
    auto [raw, fd] = socket_pair();
    auto stream = TlsStream::accept(*node_context(files_), std::move(fd)).value();
    ASSERT_GT(::send(raw.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 0);
    Transfer step = stream->handshake();
    if (step.state == StreamState::kWouldBlock) {
      raw.reset();
      step = stream->handshake();
    }
    EXPECT_EQ(step.state, StreamState::kEnded);
    EXPECT_FALSE(stream->failure().empty());
  }
}

// Odd pieces, gathered and scattered, in both directions at once, over a socket that is full all
// the time: every record meets a would-block in its middle.
class TlsTransfer : public Tls, public ::testing::WithParamInterface<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(RecordsPerKey, TlsTransfer, ::testing::Values(kTlsRecordsPerKey, 3, 1));

TEST_P(TlsTransfer, LargeTransferInOddPiecesArrivesWhole) {
  Handshake shake(node_context(files_, GetParam()), client_context(ca_.file(), GetParam()));
  ASSERT_TRUE(shake.done());
  std::mt19937_64 random(1);
  struct Direction {
    Stream& from;
    Stream& to;
    std::string sent;
    size_t offered = 0;
    std::string arrived = {};
    int blocked = 0;
  };
  const auto content = [&] {
    std::string bytes(5 << 20, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  };
  Direction directions[] = {{*shake.client, *shake.node, content()},
                            {*shake.node, *shake.client, content()}};
  size_t shortest_offer[2] = {1, 1};
  for (int turn = 0; turn < 1'000'000; ++turn) {
    for (size_t i = 0; i < 2; ++i) {
      Direction& each = directions[i];
      if (each.offered < each.sent.size() && random() % 3 != 0) {
        // A write that blocked is offered again, in full.
        const size_t left = each.sent.size() - each.offered;
        const size_t offer = std::min(left, shortest_offer[i] + random() % 70'000);
        const size_t cut = random() % (offer + 1);
        char* data = each.sent.data() + each.offered;
        const std::array<iovec, 2> parts = {iovec{data, cut}, iovec{data + cut, offer - cut}};
        const Transfer moved = each.from.write(parts);
        ASSERT_NE(moved.state, StreamState::kEnded);
        if (moved.state == StreamState::kWouldBlock) {
          EXPECT_EQ(moved.events, POLLOUT);
          ++each.blocked;
          shortest_offer[i] = offer;
        } else {
          shortest_offer[i] = offer - moved.bytes;
        }
        each.offered += moved.bytes;
      }
      if (random() % 3 == 0) continue;
      std::string buffer(1 + random() % 40'000, '\0');
      const size_t cut = random() % buffer.size();
      const std::array<iovec, 2> parts = {iovec{buffer.data(), cut},
                                          iovec{buffer.data() + cut, buffer.size() - cut}};
      const Transfer got = each.to.read(parts);
      ASSERT_NE(got.state, StreamState::kEnded);
      if (got.state == StreamState::kWouldBlock) {
        EXPECT_FALSE(each.to.has_buffered()) << "nobody would ever wait";
        EXPECT_EQ(got.events, POLLIN) << "a read that waits for a write may wait for ever";
      }
      each.arrived.append(buffer.data(), got.bytes);
    }
    if (std::ranges::all_of(directions, [](const Direction& each) {
          return each.arrived.size() == each.sent.size();
        })) {
      break;
    }
  }
  for (const Direction& each : directions) {
    EXPECT_TRUE(each.arrived == each.sent);
    EXPECT_GT(each.blocked, 0);
  }
}

// Lengths of the records that have come and have not been read.
std::vector<size_t> records_at(const Stream& stream) {
  std::vector<uint8_t> bytes(1 << 20);
  const ssize_t got = ::recv(stream.fd(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  std::vector<size_t> lengths;
  for (ssize_t at = 0; at + 5 <= got;) {
    const auto* header = &bytes[static_cast<size_t>(at)];
    lengths.push_back(static_cast<size_t>(header[3]) * 256 + header[4]);
    at += 5 + static_cast<ssize_t>(lengths.back());
  }
  return lengths;
}

constexpr size_t kKeyUpdateBytes = 5 + 1 + 16;  // the message, its type, the tag

TEST_F(Tls, KeyIsRenewedAfterAsManyRecordsAsItMayProtect) {
  Handshake shake(node_context(files_), client_context(ca_.file(), 4));
  ASSERT_TRUE(shake.done());
  std::string sent;
  for (char c = 'A'; c < 'A' + 13; ++c) {
    sent += std::string(100, c);
    ASSERT_EQ(write_of(*shake.client, std::string(100, c)).bytes, 100u);
  }
  std::vector<size_t> expected;
  for (int i = 0; i < 13; ++i) {
    if (i == 4 || i == 8 || i == 12) expected.push_back(kKeyUpdateBytes);
    expected.push_back(100 + 1 + 16);
  }
  EXPECT_EQ(records_at(*shake.node), expected);
  std::string got;
  while (read_into(*shake.node, got, 333).state == StreamState::kMoved) continue;
  EXPECT_EQ(got, sent);
  // The other direction has keys of its own.
  ASSERT_EQ(write_of(*shake.node, "an answer").state, StreamState::kMoved);
  EXPECT_EQ(records_at(*shake.client).size(), 1u);
}

// Peers of ours never ask.
TEST_F(Tls, PeerThatAsksForANewKeyGetsItWithTheNextWord) {
  auto [client_fd, node_fd] = socket_pair();
  auto node = TlsStream::accept(*node_context(files_), std::move(node_fd)).value();
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> client(SSL_new(context.get()), SSL_free);
  ASSERT_EQ(SSL_set_fd(client.get(), client_fd.get()), 1);
  SSL_set_connect_state(client.get());
  StreamState state = StreamState::kWouldBlock;
  for (int turn = 0; turn < 20; ++turn) {
    SSL_do_handshake(client.get());
    Handshake::step(*node, state);
  }
  ASSERT_EQ(state, StreamState::kMoved);
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(SSL_key_update(client.get(), SSL_KEY_UPDATE_REQUESTED), 1);
    ASSERT_EQ(SSL_write(client.get(), "a question", 10), 10);
    std::string got;
    ASSERT_EQ(read_into(*node, got, 100).bytes, 10u);
    EXPECT_EQ(read_into(*node, got, 100).events, POLLIN);
    ASSERT_EQ(write_of(*node, "the answer").bytes, 10u);
    ASSERT_EQ(write_of(*node, "and more").bytes, 8u);
    std::string answer(18, '\0');
    ASSERT_EQ(SSL_read(client.get(), answer.data(), 18), 10);
    ASSERT_EQ(SSL_read(client.get(), answer.data() + 10, 8), 8);
    EXPECT_EQ(answer, "the answerand more");
    EXPECT_EQ(SSL_get_key_update_type(client.get()), SSL_KEY_UPDATE_NONE);
  }
}

// OpenSSL reads ahead: what it holds is told by no descriptor.
TEST_F(Tls, WhatHasBeenReadAheadIsTold) {
  Handshake shake(node_context(files_), client_context(ca_.file()));
  ASSERT_TRUE(shake.done());
  ASSERT_EQ(write_of(*shake.client, "two").state, StreamState::kMoved);
  ASSERT_EQ(write_of(*shake.client, "words").state, StreamState::kMoved);
  std::string got;
  ASSERT_EQ(read_into(*shake.node, got, 3).bytes, 3u);
  EXPECT_FALSE(wait_for(shake.node->fd(), POLLIN, 0));
  EXPECT_TRUE(shake.node->has_buffered());
  ASSERT_EQ(read_into(*shake.node, got, 100).bytes, 5u);
  EXPECT_EQ(got, "twowords");
  EXPECT_FALSE(shake.node->has_buffered());
}

// Half a record is nothing that can be read, though OpenSSL has it.
TEST_F(Tls, HalfARecordIsWaitedForAndNotSpunOn) {
  auto [client_fd, middle_in] = socket_pair();
  auto [middle_out, node_fd] = socket_pair();
  auto client =
      TlsStream::connect(*client_context(ca_.file()), std::move(client_fd), "localhost").value();
  auto node = TlsStream::accept(*node_context(files_), std::move(node_fd)).value();
  const auto forward = [](const UniqueFd& from, const UniqueFd& to) {
    std::array<char, 65536> bytes;
    const ssize_t got = ::recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      EXPECT_EQ(::send(to.get(), bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL), got);
    }
  };
  StreamState states[2] = {StreamState::kWouldBlock, StreamState::kWouldBlock};
  for (int turn = 0; turn < 20; ++turn) {
    Handshake::step(*client, states[0]);
    forward(middle_in, middle_out);
    Handshake::step(*node, states[1]);
    forward(middle_out, middle_in);
  }
  ASSERT_EQ(states[1], StreamState::kMoved);
  ASSERT_EQ(write_of(*client, "a word").state, StreamState::kMoved);
  std::array<char, 1000> record;
  const ssize_t bytes = ::recv(middle_in.get(), record.data(), record.size(), MSG_DONTWAIT);
  ASSERT_GT(bytes, 10);
  std::string got;
  for (ssize_t i = 0; i < bytes; ++i) {
    EXPECT_EQ(read_into(*node, got, 100).state, StreamState::kWouldBlock);
    EXPECT_FALSE(node->has_buffered()) << i;
    ASSERT_EQ(::send(middle_out.get(), &record[static_cast<size_t>(i)], 1, MSG_NOSIGNAL), 1);
  }
  EXPECT_EQ(read_into(*node, got, 100).state, StreamState::kMoved);
  EXPECT_EQ(got, "a word");
}

TEST_F(Tls, EndInGoodOrderIsToldFromABrokenConnection) {
  Handshake good(node_context(files_), client_context(ca_.file()));
  ASSERT_TRUE(good.done());
  ASSERT_EQ(write_of(*good.client, "last words").state, StreamState::kMoved);
  good.client.reset();
  std::string got;
  EXPECT_EQ(read_into(*good.node, got, 100).bytes, 10u);
  Transfer end = read_into(*good.node, got, 100);
  EXPECT_EQ(end.state, StreamState::kEnded);
  EXPECT_EQ(end.error, 0);

  Handshake cut(node_context(files_), client_context(ca_.file()));
  ASSERT_TRUE(cut.done());
  ::shutdown(cut.client->fd(), SHUT_RDWR);
  end = read_into(*cut.node, got, 100);
  EXPECT_EQ(end.state, StreamState::kEnded);
  EXPECT_NE(end.error, 0);
  EXPECT_FALSE(cut.node->refused()) << "it is not TLS that failed";
  end = read_into(*cut.node, got, 100);
  EXPECT_EQ(end.state, StreamState::kEnded) << "and stays so";
}

TEST_F(Tls, PeerThatHasVanishedIsAnErrorAndNoSignal) {
  Handshake shake(node_context(files_), client_context(ca_.file()));
  ASSERT_TRUE(shake.done());
  shake.client.reset();
  Transfer moved;
  for (int i = 0; i < 100 && moved.state != StreamState::kEnded; ++i) {
    moved = write_of(*shake.node, std::string(10'000, 'x'));
  }
  EXPECT_EQ(moved.state, StreamState::kEnded);
  EXPECT_NE(moved.error, 0);
}

TEST_F(Tls, NamesThatNoCertificateCanShowAreRefused) {
  auto [client_fd, node_fd] = socket_pair();
  const auto stream =
      TlsStream::connect(*client_context(ca_.file()), std::move(client_fd), std::string(300, 'x'));
  ASSERT_FALSE(stream.has_value());
  EXPECT_EQ(stream.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace farpage
