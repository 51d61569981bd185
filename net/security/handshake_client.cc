#include <fmt/format.h>

#include <algorithm>

#include "net/security/greeting.h"
#include "net/security/greeting_wire.h"

namespace farpage {
namespace {

using greeting::Answer;
using greeting::Challenge;
using greeting::ClientProof;
using greeting::Opening;

template <typename Message>
std::span<std::byte> bytes_of(Message& message) {
  return std::as_writable_bytes(std::span(&message, 1));
}

Code to_code(uint32_t code) {
  return code <= static_cast<uint32_t>(Code::kSystem) ? static_cast<Code>(code) : Code::kProtocol;
}

// The node's own words when it refuses.
Result<void> read_refusal(Stream& stream, uint32_t code, uint32_t message_bytes,
                          const std::string& node, uint64_t deadline_ns) {
  std::string text(std::min(message_bytes, greeting::kMaxMessageBytes), '\0');
  auto read = read_all(stream, std::as_writable_bytes(std::span(text)), deadline_ns);
  if (!read) text = "it does not say why";
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return fail(to_code(code), fmt::format("the node at {} refuses: {}", node, text));
}

Error about(const std::string& node, const Error& error) {
  if (error.code == Code::kTimeout) {
    return {Code::kTimeout,
            fmt::format("the node at {} does not answer; is it stopped, or does it want TLS "
                        "(security.tls)?",
                        node)};
  }
  return {Code::kUnavailable,
          fmt::format("the node at {} closed the connection ({}); does something else listen "
                      "there, or does it want TLS (security.tls)?",
                      node, error.message)};
}

}  // namespace

Result<void> handshake_as_client(Stream& stream, const SharedToken& token,
                                 const Introduction& introduction, const std::string& node,
                                 uint64_t deadline_ns) {
  const auto kind = static_cast<uint32_t>(introduction.kind);
  Opening opening = {greeting::kMagic, kGreetingVersion, kind, 0, make_nonce()};
  if (auto sent = write_all(stream, bytes_of(opening), deadline_ns); !sent) {
    return tl::unexpected(about(node, sent.error()));
  }
  Challenge challenge;
  if (auto read = read_all(stream, bytes_of(challenge), deadline_ns); !read) {
    return tl::unexpected(about(node, read.error()));
  }
  if (challenge.magic != greeting::kMagic) {
    return fail(
        Code::kProtocol,
        fmt::format(
            "the process that listens at {} is not a memory node, or it speaks TLS (security.tls)",
            node));
  }
  if (challenge.code != 0) {
    return read_refusal(stream, challenge.code, challenge.message_bytes, node, deadline_ns);
  }
  if (challenge.version != kGreetingVersion) {
    return fail(Code::kProtocol,
                fmt::format("the node at {} speaks version {} of the greeting, this client {}: run "
                            "the same version of farpage on both",
                            node, challenge.version, kGreetingVersion));
  }
  if (challenge.asks_token != 0 && token.secret.empty()) {
    return fail(Code::kDenied,
                fmt::format("the node at {} asks for its token: name the file that holds it with "
                            "--token-file or security.token_file",
                            node));
  }
  ClientProof proof = {
      introduction.channel,
      greeting::prove(token, "client", opening.nonce, challenge.nonce, kind, introduction.channel)};
  if (auto sent = write_all(stream, bytes_of(proof), deadline_ns); !sent) {
    return tl::unexpected(about(node, sent.error()));
  }
  Answer answer;
  if (auto read = read_all(stream, bytes_of(answer), deadline_ns); !read) {
    return tl::unexpected(about(node, read.error()));
  }
  if (answer.code != 0) {
    return read_refusal(stream, answer.code, answer.message_bytes, node, deadline_ns);
  }
  const Proof expected =
      greeting::prove(token, "node", opening.nonce, challenge.nonce, kind, introduction.channel);
  if (!token.secret.empty() && !greeting::equal(answer.proof, expected)) {
    return fail(Code::kDenied,
                fmt::format("the node at {} does not know this client's token: give both the same "
                            "file",
                            node));
  }
  return {};
}

}  // namespace farpage
