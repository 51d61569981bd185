#pragma once

#include <cstdint>

namespace farpage::tcp {

// The data path over TCP: docs/formats/data.md. Little endian. After the greeting the node sends
// one Reply (sequence 0: whether the channel is taken up), then one for each request, in order. A
// reply with a code other than kOk is the node's last word.
enum class RequestKind : uint8_t { kRead = 1, kWrite = 2 };

inline constexpr uint8_t kHasImmediate = 1;

struct Request {
  uint8_t kind;
  uint8_t flags;
  uint16_t reserved;
  uint32_t sequence;  // 1, 2, …
  uint32_t region;
  uint32_t generation;
  uint64_t offset;
  uint64_t bytes;  // kWrite: as many follow
  uint32_t immediate;
  uint32_t reserved_too;
};
static_assert(sizeof(Request) == 40);

struct Reply {
  uint32_t sequence;
  uint32_t code;
  uint64_t bytes;  // kRead: as many follow
};
static_assert(sizeof(Reply) == 16);

struct RegionKey {
  uint32_t index;
  uint32_t generation;
};
static_assert(sizeof(RegionKey) == 8);

}  // namespace farpage::tcp
