#include "tests/transport/cuda/warp_emulation.h"

#include <cstring>

#include "transport/cuda/kernels/warp_crc.h"

namespace farpage {
namespace {

const cuda::CrcConstants kConstants = cuda::make_crc_constants();

struct Lanes {
  uint32_t of[cuda::kLanes];
};

template <typename Combine>
Lanes each(const Combine& combine) {
  Lanes made;
  for (int lane = 0; lane < cuda::kLanes; ++lane) made.of[lane] = combine(lane);
  return made;
}

Lanes operator^(const Lanes& left, const Lanes& right) {
  return each([&](int lane) { return left.of[lane] ^ right.of[lane]; });
}
Lanes operator&(const Lanes& left, const Lanes& right) {
  return each([&](int lane) { return left.of[lane] & right.of[lane]; });
}
Lanes operator&(const Lanes& left, uint32_t right) {
  return each([&](int lane) { return left.of[lane] & right; });
}
Lanes operator-(const Lanes& left, const Lanes& right) {
  return each([&](int lane) { return left.of[lane] - right.of[lane]; });
}
Lanes operator>>(const Lanes& left, int bits) {
  return each([&](int lane) { return left.of[lane] >> bits; });
}

struct EmulatedWarp {
  using Word = Lanes;
  const std::byte* page;

  // A shuffle takes the lowest five bits of the lane's number, as __shfl_sync does.
  static Lanes shuffle(const Lanes& table, const Lanes& lane) {
    return each([&](int i) { return table.of[lane.of[i] % cuda::kLanes]; });
  }
  Lanes inner(int offset) const {
    Lanes words;
    std::memcpy(&words, page + offset, sizeof words);
    return words;
  }
  Lanes edge(int offset, int bytes) const {
    const auto read = [this](int at) {
      uint32_t word;
      std::memcpy(&word, page + at, sizeof word);
      return word;
    };
    return each([&](int lane) {
      const int at = offset + lane * cuda::kWordBytes;
      return cuda::edge_word(read, at, bytes);
    });
  }
};

}  // namespace

uint32_t emulated_crc(const std::byte* page, int bytes, int warps) {
  uint32_t shares = 0;
  for (int warp = 0; warp < warps; ++warp) {
    const int first_column = warp * cuda::kLanes;
    Lanes table[cuda::kDigits];
    for (int digit = 0; digit < cuda::kDigits; ++digit) {
      table[digit] = each([&](int lane) { return kConstants.next_row[warps / 4][digit][lane]; });
    }
    const Lanes factor = each([&](int lane) {
      return kConstants.column[cuda::kLanes * warps - 1 - first_column - lane];
    });
    const Lanes share =
        cuda::crc_shares(EmulatedWarp{page}, bytes, warps, first_column, table, factor);
    for (const uint32_t of_lane : share.of) shares ^= of_lane;
  }
  return cuda::finish_crc(shares, static_cast<uint32_t>(bytes), kConstants);
}

}  // namespace farpage
