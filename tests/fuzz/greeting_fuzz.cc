// The first byte chooses what the rest is: a client's words to a node, a node's words to a client
// (each with a token and without), or the text of an address.
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/clock.h"
#include "net/address/address.h"
#include "net/security/greeting.h"

namespace farpage {
namespace {

const SharedToken kToken = {"the token of the fuzzer"};

struct Pair {
  Pair() {
    std::array<int, 2> ends = {-1, -1};
    FARPAGE_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    ours.reset(ends[0]);
    theirs.reset(ends[1]);
  }
  void say(std::string_view bytes) const {
    (void)!::send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  UniqueFd ours;
  UniqueFd theirs;
};

// No client gets in without the token, with any bytes in any pieces.
void attack_node(const std::string& bytes, const SharedToken& token) {
  Pair pair;
  PlainStream stream(std::move(pair.ours));
  HandshakeServer handshake(token);
  const std::string_view whole = bytes;
  pair.say(whole.substr(0, whole.size() / 2));
  HandshakeServer::State state = handshake.advance(stream);
  if (state == HandshakeServer::State::kReading) {
    pair.say(whole.substr(whole.size() / 2));
    ::shutdown(pair.theirs.get(), SHUT_WR);
    state = handshake.advance(stream);
  }
  FARPAGE_CHECK(state != HandshakeServer::State::kReading);
  FARPAGE_CHECK(handshake.refusal().empty() == (state == HandshakeServer::State::kAccepted));
  if (state != HandshakeServer::State::kAccepted) return;
  const ConnectionKind kind = handshake.introduction().kind;
  FARPAGE_CHECK(token.secret.empty());
  FARPAGE_CHECK(kind == ConnectionKind::kControl || kind == ConnectionKind::kData);
}

// No node is believed that does not know the token; a reason is printable and short.
void attack_client(const std::string& bytes, const SharedToken& token) {
  const Pair pair;
  pair.say(bytes);
  ::shutdown(pair.theirs.get(), SHUT_WR);
  PlainStream stream(UniqueFd(::dup(pair.ours.get())));
  const auto met =
      handshake_as_client(stream, token, {}, "node", boottime_clock().now_ns() + 30 * kSecond);
  if (met) {
    FARPAGE_CHECK(token.secret.empty());
    return;
  }
  FARPAGE_CHECK(met.error().code != Code::kOk);
  FARPAGE_CHECK(!met.error().message.empty() && met.error().message.size() < 1024);
  for (const char c : met.error().message) FARPAGE_CHECK(c >= ' ' && c <= '~');
}

void attack_address(const std::string& text) {
  const auto address = parse_address(text);
  if (!address) return;
  const auto again = parse_address(format_address(*address));
  FARPAGE_CHECK(again.has_value() && again->path == address->path && again->host == address->host &&
                again->port == address->port);
}

}  // namespace
}  // namespace farpage

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace farpage;
  if (bytes == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, bytes - 1);
  switch (data[0] % 5) {
    case 0:
      attack_node(rest, {});
      break;
    case 1:
      attack_node(rest, kToken);
      break;
    case 2:
      attack_client(rest, {});
      break;
    case 3:
      attack_client(rest, kToken);
      break;
    default:
      attack_address(rest);
  }
  return 0;
}
