#pragma once

#include <cstdint>
#include <string>

namespace farpage {

enum class MemoryKind : uint8_t { kHost, kCuda };

// Which memory bytes lie in: the host's, or one GPU's, which no code of the CPU may touch.
struct MemoryPlace {
  MemoryKind kind = MemoryKind::kHost;
  int16_t device = -1;  // the GPU's ordinal; -1 for host memory

  bool is_host() const { return kind == MemoryKind::kHost; }
  friend bool operator==(const MemoryPlace&, const MemoryPlace&) = default;
};
static_assert(sizeof(MemoryPlace) == 4);

// For people: "host memory", or "memory of cuda:0".
inline std::string place_name(MemoryPlace place) {
  if (place.is_host()) return "host memory";
  return "memory of cuda:" + std::to_string(place.device);
}

}  // namespace farpage
