#pragma once

#include <array>
#include <cstdint>

#include "net/security/greeting.h"

namespace farpage::greeting {

// Numbers are little endian: docs/formats/greeting.md.
inline constexpr uint32_t kMagic = 0x4E475046;  // "FPGN"
inline constexpr uint32_t kMaxMessageBytes = 512;

struct Opening {
  uint32_t magic;
  uint32_t version;
  uint32_t kind;
  uint32_t reserved;
  Nonce nonce;
};
static_assert(sizeof(Opening) == 48);

// `code` other than kOk: a refusal, and `message_bytes` of its text follow; nothing comes after it.
struct Challenge {
  uint32_t magic;
  uint32_t version;
  uint32_t code;
  uint32_t message_bytes;
  uint32_t asks_token;
  uint32_t reserved;
  Nonce nonce;
};
static_assert(sizeof(Challenge) == 56);

struct ClientProof {
  ChannelId channel;
  Proof proof;
};
static_assert(sizeof(ClientProof) == 48);

// Followed by the text.
struct Answer {
  uint32_t code;
  uint32_t message_bytes;
  Proof proof;
};
static_assert(sizeof(Answer) == 40);

// Over both nonces and what the client wants, so that no proof serves anywhere else.
Proof prove(const SharedToken& token, const char* side, const Nonce& client, const Nonce& node,
            uint32_t kind, const ChannelId& channel);
bool equal(const Proof& one, const Proof& other);

}  // namespace farpage::greeting
