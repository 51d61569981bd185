#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "net/security/greeting.h"
#include "net/security/greeting_wire.h"

namespace farpage {
namespace {

using greeting::Answer;
using greeting::Challenge;
using greeting::ClientProof;
using greeting::Opening;

template <typename Message>
std::string text_of(const Message& message) {
  return std::string(reinterpret_cast<const char*>(&message), sizeof message);
}

}  // namespace

std::string encode_refusal(Code code, const std::string& message) {
  const std::string text = message.substr(0, greeting::kMaxMessageBytes);
  const Challenge challenge = {greeting::kMagic,
                               kGreetingVersion,
                               static_cast<uint32_t>(code),
                               static_cast<uint32_t>(text.size()),
                               0,
                               0,
                               {}};
  return text_of(challenge) + text;
}

HandshakeServer::HandshakeServer(SharedToken token, std::span<const SharedToken> tenants)
    : token_(std::move(token)), tenants_(tenants) {}

HandshakeServer::State HandshakeServer::advance(Stream& stream) {
  while (exchange(stream)) {
    if (step_ == Step::kDone) return refusal_.empty() ? State::kAccepted : State::kRefused;
    filled_ = 0;
    if (step_ == Step::kOpening) {
      take_opening();
    } else if (step_ == Step::kProof) {
      take_proof();
    } else {
      step_ = Step::kDone;
    }
  }
  return refusal_.empty() || events_ != 0 ? State::kReading : State::kRefused;
}

// Sends what is to be sent, then reads what the step needs. False: not yet, or never (events_ 0).
bool HandshakeServer::exchange(Stream& stream) {
  const auto moved = [&](const Transfer& transfer) {
    events_ = transfer.state == StreamState::kWouldBlock ? transfer.events : short{0};
    if (transfer.state == StreamState::kEnded) refusal_ = "the client has gone";
    return transfer.state == StreamState::kMoved;
  };
  while (!outgoing_.empty()) {
    const iovec part = {outgoing_.data(), outgoing_.size()};
    const Transfer sent = stream.write(std::span(&part, 1));
    if (!moved(sent)) return false;
    outgoing_.erase(0, sent.bytes);
  }
  const size_t wanted = step_ == Step::kOpening ? sizeof(Opening)
                        : step_ == Step::kProof ? sizeof(ClientProof)
                                                : 0;
  while (filled_ < wanted) {
    const iovec part = {incoming_.data() + filled_, wanted - filled_};
    const Transfer got = stream.read(std::span(&part, 1));
    if (!moved(got)) return false;
    filled_ += got.bytes;
  }
  return true;
}

void HandshakeServer::take_opening() {
  Opening opening;
  std::memcpy(&opening, incoming_.data(), sizeof opening);
  if (opening.magic != greeting::kMagic || opening.version != kGreetingVersion) {
    refusal_ = opening.magic != greeting::kMagic
                   ? "this is a farpage memory node, and the client speaks something else"
                   : fmt::format(
                         "the client speaks version {} of the greeting, this node {}: run "
                         "the same version of farpage on both",
                         opening.version, kGreetingVersion);
    outgoing_ = encode_refusal(Code::kProtocol, refusal_);
    step_ = Step::kAnswer;
    return;
  }
  client_nonce_ = opening.nonce;
  introduction_.kind = static_cast<ConnectionKind>(opening.kind);
  nonce_ = make_nonce();
  const Challenge challenge = {
      greeting::kMagic, kGreetingVersion, 0, 0, asks_token() ? 1u : 0u, 0, nonce_};
  outgoing_ = text_of(challenge);
  step_ = Step::kProof;
}

void HandshakeServer::take_proof() {
  ClientProof proof;
  std::memcpy(&proof, incoming_.data(), sizeof proof);
  introduction_.channel = proof.channel;
  const auto kind = static_cast<uint32_t>(introduction_.kind);
  if (asks_token()) proven_ = find_proven(proof.proof);
  if (proven_ == nullptr) {
    return answer(Code::kDenied,
                  "the client's token is not this node's: name the file that holds the node's with "
                  "--token-file or security.token_file");
  }
  if (introduction_.kind != ConnectionKind::kControl &&
      introduction_.kind != ConnectionKind::kData) {
    return answer(Code::kProtocol, fmt::format("connections of kind {} are unknown", kind));
  }
  answer(Code::kOk, "");
}

// All are tried, whichever fits, so that the time tells nothing of whose it is.
const SharedToken* HandshakeServer::find_proven(const Proof& proof) {
  const SharedToken* found = nullptr;
  const auto fits = [&](const SharedToken& token) {
    const bool is_proven = greeting::equal(
        proof, greeting::prove(token, "client", client_nonce_, nonce_,
                               static_cast<uint32_t>(introduction_.kind), introduction_.channel));
    return is_proven && !token.secret.empty();
  };
  if (fits(token_)) found = &token_;
  for (size_t i = 0; i < tenants_.size(); ++i) {
    if (!fits(tenants_[i])) continue;
    found = &tenants_[i];
    introduction_.tenant = i;
  }
  return found;
}

void HandshakeServer::answer(Code code, const std::string& message) {
  refusal_ = message;
  Answer answer = {static_cast<uint32_t>(code), static_cast<uint32_t>(message.size()), {}};
  if (code == Code::kOk) {
    answer.proof =
        greeting::prove(*proven_, "node", client_nonce_, nonce_,
                        static_cast<uint32_t>(introduction_.kind), introduction_.channel);
  }
  outgoing_ = text_of(answer) + message;
  step_ = Step::kAnswer;
}

}  // namespace farpage
