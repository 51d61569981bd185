#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "net/stream/stream.h"

namespace farpage {

// The first words on every TCP connection, in either direction: docs/formats/greeting.md. They say
// what the connection is for, and prove to each side that the other knows the shared token, without
// showing it.
inline constexpr uint32_t kGreetingVersion = 1;

enum class ConnectionKind : uint32_t { kControl = 1, kData = 2 };

using ChannelId = std::array<std::byte, 16>;

struct Introduction {
  ConnectionKind kind = ConnectionKind::kControl;
  ChannelId channel = {};  // kData: which one is taken up; all zero otherwise
  // At a node: whose token the client knows. Nothing: the node's own, or none is asked for.
  std::optional<size_t> tenant = {};
};

// A secret that nodes and clients share. Empty: none is asked for.
struct SharedToken {
  std::string secret;

  // The file's text without white space at its ends; refuses less than 16 bytes, and files that
  // others may read.
  static Result<SharedToken> load(const std::string& path);
};

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;  // HMAC-SHA256 with the token as key
Nonce make_nonce();
ChannelId make_channel_id();

// A client's part of the handshake; blocks until the node has accepted, refused, or the deadline
// has come. `node` names it in messages.
Result<void> handshake_as_client(Stream& stream, const SharedToken& token,
                                 const Introduction& introduction, const std::string& node,
                                 uint64_t deadline_ns);

// A node's part, fed with the bytes that come.
class HandshakeServer {
 public:
  // With tenants a client knows the token of one of them or, if there is one, the node's own; which
  // one the node finds out by itself. `tenants` outlives this.
  explicit HandshakeServer(SharedToken token, std::span<const SharedToken> tenants = {});
  HandshakeServer(const HandshakeServer&) = delete;  // proven_ is of this one
  HandshakeServer& operator=(const HandshakeServer&) = delete;

  enum class State : uint8_t { kReading, kAccepted, kRefused };

  // Moves on as far as the stream gives bytes. `events` of the last transfer say what to wait for
  // while kReading.
  State advance(Stream& stream);
  short events() const { return events_; }
  const Introduction& introduction() const { return introduction_; }
  const std::string& refusal() const { return refusal_; }

 private:
  enum class Step : uint8_t { kOpening, kProof, kAnswer, kDone };

  void take_opening();
  void take_proof();
  void answer(Code code, const std::string& message);
  bool exchange(Stream& stream);
  bool asks_token() const { return !token_.secret.empty() || !tenants_.empty(); }
  const SharedToken* find_proven(const Proof& proof);

  const SharedToken token_;
  const std::span<const SharedToken> tenants_;
  const SharedToken* proven_ = &token_;  // what the client knows too
  Step step_ = Step::kOpening;
  short events_ = POLLIN;
  Nonce client_nonce_ = {};
  Nonce nonce_ = {};
  Introduction introduction_;
  std::string refusal_;
  size_t filled_ = 0;
  std::array<std::byte, 64> incoming_ = {};
  std::string outgoing_;
};

// The answer of a node without TLS to a client that begins with it, and the other way round: the
// first byte tells.
bool looks_like_tls(std::byte first);
// A refusal that can be sent to a client that has not been heard.
std::string encode_refusal(Code code, const std::string& message);

}  // namespace farpage
