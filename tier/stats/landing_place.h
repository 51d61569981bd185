#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace farpage {

// Where the pages of a fetch into a GPU's memory land first: in the host's, or in the GPU's own,
// whose place a network card's driver learns by a dma-buf, or from the GPU's kernel driver.
enum class LandingPlace : uint8_t { kHost, kDmaBuf, kPeerMemory };

inline constexpr std::array kLandingPlaces = {LandingPlace::kHost, LandingPlace::kDmaBuf,
                                              LandingPlace::kPeerMemory};

// As `gpu.landing` names it.
inline const char* landing_name(LandingPlace place) {
  constexpr std::array kNames = {"host", "dma-buf", "peermem"};
  return kNames[static_cast<size_t>(place)];
}

}  // namespace farpage
